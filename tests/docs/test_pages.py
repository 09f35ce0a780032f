"""The pages hold together: links lead somewhere, tables say what the code says."""

import inspect
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.docs import made, pages
from tests.docs.pages import name_of
from tidemill.explain.questions import QUESTIONS
from tidemill.ledger.buckets import ABOUT, CLAIMED_AS, Bucket
from tidemill.model import errors, rows
from tidemill.model.reasons import LAYER_OF, NEVER, Cause
from tidemill.scheduling.schedule import CURED_BY_WAITING

PAGES = pages.pages()
OUTSIDE = ("http://", "https://", "mailto:")


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_link_leads_somewhere(page: Path):
    """Every relative link of a page names a file that exists, and a heading that it has."""
    text = page.read_text(encoding="utf-8")
    inside = [link for link in pages.links(text) if not link.startswith(OUTSIDE)]
    assert [link for link in inside if not _leads_somewhere(page, link)] == []


@pytest.mark.parametrize(
    ("page", "name"), [(page, name) for page, parts in made.PARTS.items() for name in parts]
)
def test_made_parts_are_up_to_date(page: str, name: str):
    """What a page takes from the code is what the code says: `python -m tests.docs.made`."""
    assert pages.made(pages.text_of(page))[name] == made.PARTS[page][name]()


def test_every_source_file_that_a_page_names_exists():
    """Of what a page says where the code is; decisions name what there was at their time."""
    named = re.compile(r"`((?:[a-z_]+/)+[a-z_]+\.py)`")
    pages_now = [page for page in PAGES if page.parent.name != "decisions"]
    found = {
        (page.name, path) for page in pages_now for path in named.findall(page.read_text("utf-8"))
    }
    roots = [pages.ROOT / part for part in ("", "src", "src/tidemill", "tests")]
    assert [one for one in found if not any((root / one[1]).exists() for root in roots)] == []


def test_a_row_is_told_as_it_is_exported():
    """A row that is exported as a list is told as one, with its fields in their order."""
    text = pages.text_of("docs/reference/events.md")
    assert msgspec.to_builtins(rows.Piece(0, 1, 2, 3)) == [0, 1, 2, 3, 0]
    for kind in made.ROWS:
        section = text.split(f"### {kind.__name__}\n", 1)[1].split("\n### ", 1)[0]
        listed = f"`[{', '.join(kind.__struct_fields__)}]`"
        assert (listed in section) == kind.__struct_config__.array_like, kind.__name__


def test_every_cause_is_explained():
    """The table of causes names every cause in order, with its owner and its ledger bucket."""
    rows = pages.table_with(pages.text_of("docs/concepts/scheduling.md"), "cause")
    told = [(row["cause"].strip("`"), row["owner"], row["counted as"].strip("`")) for row in rows]
    assert told == [(c.name.lower(), LAYER_OF[c].name.lower(), _claimed_as(c)) for c in Cause]


def test_the_four_questions_are_told_as_they_are_printed():
    """The table of *Explain* has the words that `why` prints, in its order, each with its layer."""
    rows = pages.table_with(pages.text_of("docs/concepts/explain.md"), "question")
    told = [(row["question"], row["layer"].split()[1]) for row in rows]
    assert told == [(words, layer.name.lower()) for layer, words in QUESTIONS.items()]


def test_every_command_that_exits_with_1_is_told():
    """Row 1 of the exit codes names each command that ends with it, however it is reached."""
    (told,) = (row["meaning"] for row in pages.table_with(
        pages.text_of("docs/reference/exit-codes.md"), "code") if row["code"] == "1")  # fmt: skip
    found = {path.removeprefix("tidemill ") for path, one in made.commands() if _exits_with_1(one)}
    assert found == {"journal verify", "doctor", "unit fit", "unit mig", "probe compare",
                     "schedule kubernetes"}  # fmt: skip
    assert [name for name in found if f"`{name}`" not in told] == []


def _exits_with_1(command: Any) -> bool:
    """Whether a command, or a function of its module that it names, exits with 1."""
    if command.callback is None:
        return False
    function = inspect.unwrap(command.callback)
    module, text = inspect.getmodule(function), inspect.getsource(function)
    inner = [getattr(module, name, None) for name in re.findall(r"\b_\w+", text)]
    texts = [text, *(inspect.getsource(one) for one in inner if inspect.isfunction(one))]
    return any(re.search(r"typer\.Exit\((1|0 if)", one) for one in texts)


def test_the_table_of_causes_says_what_waiting_cures():
    """The table says of each cause whether waiting helps, as the scheduler and the ledger hold."""
    rows = pages.table_with(pages.text_of("docs/concepts/scheduling.md"), "cause")
    told = {row["cause"].strip("`"): row["ends when"] for row in rows}
    for cause in Cause:
        words = told[cause.name.lower()]
        assert words.startswith("never") == (cause in NEVER), cause.name
        assert words.startswith("running jobs end") == (cause in CURED_BY_WAITING), cause.name


def test_every_exit_code_is_told():
    """The table of exit codes names each error of the program with its code."""
    rows = pages.table_with(pages.text_of("docs/reference/exit-codes.md"), "code")
    told = {row["error"].strip("`"): int(row["code"]) for row in rows if row["error"] != "—"}
    assert told == {kind.__name__: kind.exit_code for kind in errors.TidemillError.__subclasses__()}
    assert {int(row["code"]) for row in rows} == {*told.values(), 0, 1, 130}


def test_the_glossary_is_in_order():
    """The glossary gives each word one meaning, in alphabetical order."""
    words = re.findall(r"^\*\*(.+?)\*\*", pages.text_of("docs/glossary.md"), re.MULTILINE)
    keys = [word.lower() for word in words]
    assert len(words) > 100
    assert keys == sorted(set(keys))


def test_every_bucket_has_a_word():
    """The glossary and the ledger JSON know every bucket by its key."""
    text = pages.text_of("docs/reference/ledger-json.md")
    assert [key for key in (ABOUT[b].key for b in Bucket) if f"`{key}`" not in text] == []


def _leads_somewhere(page: Path, link: str) -> bool:
    path, _, anchor = link.partition("#")
    target = (page.parent / path).resolve() if path else page
    if target.is_dir() or not target.exists():
        return target.is_dir() and not anchor
    return not anchor or anchor in pages.anchors(target.read_text(encoding="utf-8"))


def _claimed_as(cause: Cause) -> str:
    bucket = CLAIMED_AS[cause]
    return ABOUT[Bucket(bucket)].key if bucket >= 0 else "—"
