"""Journals to and from JSON lines and Parquet: equal both ways, and kind about what is wrong."""

import gzip
import json
from pathlib import Path
from random import Random
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.journal.stories import stories, tell
from tidemill.journal import exchange, fields, open_journal
from tidemill.journal.exchange import export_events, import_events
from tidemill.journal.verify import verify
from tidemill.model.errors import JournalError, SpecError
from tidemill.model.events import Event

FORMS = ("mill.jsonl", "mill.ndjson.gz", "mill.parquet")
REUSED = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]  # each example cleans up
FEW = settings(max_examples=25, deadline=None, suppress_health_check=REUSED)
MANY = settings(max_examples=150, deadline=None, suppress_health_check=REUSED)


@pytest.fixture(scope="module")
def lines() -> list[str]:
    """A short story as JSON lines."""
    events = tell(Random("lines"), 40)
    return [json.dumps({"seq": n} | json.loads(fields.encode(e))) for n, e in enumerate(events)]


@pytest.mark.parametrize("name", FORMS)
@given(story=stories())
@FEW
def test_every_story_survives_the_journey(tmp_path: Path, name: str, story: list[Event]):
    """Whatever happened reads back equal from every form."""
    file, out = tmp_path / name, tmp_path / "out.db"
    out.unlink(missing_ok=True)
    with open_journal(":memory:") as journal:
        journal.append(story)
        assert export_events(journal, file, overwrite=True) == len(story)
    last_ms = story[-1].at_ms if story else 0
    assert import_events(file, out) == exchange.Imported(len(story), last_ms)
    with open_journal(str(out)) as journal:
        assert list(journal.read()) == story


@pytest.mark.parametrize("name", FORMS)
def test_facts_travel_along(tmp_path: Path, name: str, story: list[Event]):
    """The small facts of a journal come with its events."""
    facts = {"policy": '{"order":"fifo"}', "name": "zwölf\n🌊", "": ""}
    with open_journal(":memory:") as journal:
        journal.append(story)
        for key, value in facts.items():
            journal.set_meta(key, value)
        export_events(journal, tmp_path / name)
    assert import_events(tmp_path / name, tmp_path / "out.db").events == len(story)
    with open_journal(str(tmp_path / "out.db")) as journal:
        assert journal.facts() == facts


@pytest.mark.parametrize("name", FORMS)
def test_equal_journals_give_equal_files(tmp_path: Path, name: str, story: list[Event]):
    """The bytes of an export depend on the events alone."""
    with open_journal(":memory:") as journal:
        journal.append(story)
        export_events(journal, tmp_path / f"1{name}")
        export_events(journal, tmp_path / f"2{name}")
    assert (tmp_path / f"1{name}").read_bytes() == (tmp_path / f"2{name}").read_bytes()


def test_a_line_is_an_object_with_its_number(tmp_path: Path, story: list[Event]):
    """Each line is one event, with its number, its kind and its time under plain names."""
    with open_journal(":memory:") as journal:
        journal.append(story)
        export_events(journal, tmp_path / "mill.jsonl")
    lines = (tmp_path / "mill.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    assert [row["seq"] for row in rows] == list(range(len(story)))
    assert [row["at_ms"] for row in rows] == [event.at_ms for event in story]


def test_a_table_names_whom_it_is_about(tmp_path: Path, story: list[Event]):
    """Jobs, nodes and contracts are named in columns of their own, not only numbered."""
    with open_journal(":memory:") as journal:
        journal.append(story)
        export_events(journal, tmp_path / "mill.parquet")
    table = pl.read_parquet(tmp_path / "mill.parquet")
    assert table.columns == ["seq", "at_ms", "kind", "job", "node", "contract", "body"]
    submitted = table.filter(pl.col("kind") == "job_submitted")["job"].to_list()
    about_jobs = table.filter(pl.col("kind") == "job_started")["job"].to_list()
    assert about_jobs
    assert set(about_jobs) <= set(submitted)
    added = table.filter(pl.col("kind") == "node_added")
    signed = table.filter(pl.col("kind") == "contract_signed")["contract"].to_list()
    assert set(added["contract"]) <= set(signed)
    assert set(table.filter(pl.col("kind") == "node_moved")["node"]) <= set(added["node"])


def test_exports_write_over_nothing(tmp_path: Path):
    """A file that exists is left alone, unless told otherwise."""
    file = tmp_path / "mill.jsonl"
    file.write_text("precious")
    with open_journal(":memory:") as journal:
        with pytest.raises(SpecError, match="exists already"):
            export_events(journal, file)
        assert file.read_text() == "precious"
        export_events(journal, file, overwrite=True)
    assert file.read_text() == ""


def test_the_suffix_says_the_form(tmp_path: Path):
    """A name that says no form is refused with the names that do."""
    with pytest.raises(JournalError, match="does not say which form") as refused:
        import_events(tmp_path / "mill.txt", tmp_path / "out.db")
    assert ".jsonl.gz" in refused.value.hint


def test_places_that_cannot_be_are_named(tmp_path: Path):
    """A folder that is not there, and a file that is not there, are said to be so."""
    with (
        open_journal(":memory:") as journal,
        pytest.raises(JournalError, match="cannot be written"),
    ):
        export_events(journal, tmp_path / "absent" / "mill.jsonl")
    with pytest.raises(JournalError, match="there is no file"):
        import_events(tmp_path / "absent.jsonl", tmp_path / "out.db")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "line 3: it is not JSON"),
        ("", None),
        ('{"facts":{}}', "line 3, field `seq`: expected 2; found nothing"),
        ("[1]", "line 3: an object was expected; found [1]"),
        ('"woke"', "line 3: an object was expected; found `woke`"),
        ('{"is":"woke","at_ms":9}', "line 3, field `seq`: expected 2; found nothing"),
        ('{"seq":7,"is":"woke","at_ms":9}', "line 3, field `seq`: expected 2; found 7"),
        ('{"seq":"2","is":"woke","at_ms":9}', "line 3, field `seq`: expected 2; found `2`"),
        ('{"seq":2,"is":"rest","at_ms":9}', "line 3, field `is`: expected one of "),
        ('{"seq":2,"at_ms":9}', "line 3: `is` is missing"),
        ('{"seq":2,"is":"woke"}', "line 3: `at_ms` is missing"),
        (
            '{"seq":2,"is":"woke","at_ms":-1}',
            "field `at_ms`: expected a whole number >= 0; found -1",
        ),
        (
            '{"seq":2,"is":"woke","at_ms":"9"}',
            'field `at_ms`: expected a whole number; found "9"',
        ),
        ('{"seq":2,"is":"woke","at_ms":9,"x":1}', "line 3: unknown field `x` (known: `at_ms`)"),
        ('{"seq":2,"is":"queue_set","at_ms":9,"queue":{"name":""}}', "field `queue.name`"),
        ('{"seq":2,"is":"woke","at_ms":1}', "cannot be applied: event 2 is at 1 ms, before"),
        ('{"seq":2,"is":"job_started","at_ms":9,"job":4,"attempt":1}', "job number 4 is unknown"),
        ("[" * 100_000, "line 3: it is not JSON"),
        ("\ufeff{}", "line 3: it is not JSON"),
    ],
    ids=lambda value: str(value)[:60],
)
def test_a_wrong_line_is_named(tmp_path: Path, line: str, said: str | None):
    """What is wrong is said with its file, its line, its field and what was found there."""
    file, out = tmp_path / "mill.jsonl", tmp_path / "out.db"
    woke = '{"seq":%d,"is":"woke","at_ms":5}\n'
    file.write_text(woke % 0 + woke % 1 + line + "\n")
    if said is None:
        assert import_events(file, out).events == 2
        return
    with pytest.raises(JournalError) as refused:
        import_events(file, out)
    assert said in refused.value.message
    assert refused.value.message.startswith(f"`{file}` line 3")
    assert refused.value.hint
    assert list(tmp_path.iterdir()) == [file]


def test_a_beginning_is_kept_on_request(tmp_path: Path, lines: list[str]):
    """With ``keep_prefix`` everything before the wrong line is kept, and the reason is returned."""
    file, out = tmp_path / "mill.jsonl", tmp_path / "out.db"
    file.write_text("\n".join([*lines[:30], "{}", *lines[30:]]))
    imported = import_events(file, out, keep_prefix=True)
    assert imported.events == 30
    assert "line 31" in imported.stopped
    report = verify(out)
    assert report.is_sound
    assert report.events == 30


def test_an_endless_line_is_not_swallowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A line beyond the bound is refused before it fills the memory."""
    monkeypatch.setattr(fields, "LONGEST_BYTES", 1_000)
    file = tmp_path / "mill.jsonl.gz"
    with gzip.open(file, "wb") as packed:
        packed.write(b"[" + b"1," * 10_000_000)
    with pytest.raises(JournalError, match="line 1: it is longer than 1000 bytes"):
        import_events(file, tmp_path / "out.db")


def test_a_damaged_archive_is_named(tmp_path: Path, lines: list[str]):
    """A compressed file that is cut, changed or not compressed at all gives a kind error."""
    file, out = tmp_path / "mill.jsonl.gz", tmp_path / "out.db"
    whole = gzip.compress("\n".join(lines).encode())
    turned = whole[:200] + bytes(100) + whole[300:]
    for data in (whole[:-1], whole[:300], whole[:5], turned, b"plain"):
        file.write_bytes(data)
        with pytest.raises(JournalError) as refused:
            import_events(file, out)
        assert str(file) in refused.value.message
        assert not out.exists()


@given(data=st.data())
@MANY
def test_mutated_lines_are_refused_kindly(tmp_path: Path, lines: list[str], data: st.DataObject):
    """Whatever is done to the bytes, an import gives a journal that is sound, or a kind error."""
    text = bytearray("\n".join(lines).encode())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(text) - 1))
        count = data.draw(st.sampled_from([0, 1, 1, 1, 5, 300]))
        text[at : at + count] = data.draw(st.binary(max_size=8) | st.sampled_from(MUTATIONS))
    file, out = tmp_path / "mill.jsonl", tmp_path / "out.db"
    file.write_bytes(text)
    out.unlink(missing_ok=True)
    match _outcome(file, out):
        case JournalError(message=message):
            assert str(file) in message
            assert not out.exists()
        case imported:
            assert verify(out).events == imported.events


MUTATIONS = (
    b"99999999999999999999",
    b"-1",
    b"1e300",
    b"null",
    b'""',
    b"[]",
    b"{}",
    b"true",
    b"\n",
    b"4611686018427387904",
    b"2147483647",
)


@given(
    field=st.sampled_from(["at_ms", "job", "attempt", "node", "shape", "contract", "to"]),
    value=st.sampled_from([0, 1, 2**31 - 1, 2**62, 2**63, -1, None, "x", [], {}]),
    at=st.integers(0, 39),
)
@MANY
def test_wild_values_are_refused_kindly(
    tmp_path: Path, lines: list[str], field: str, value: object, at: int
):
    """Fields with values from the edges give a journal that is sound, or a kind error."""
    rows: list[dict[str, Any]] = [json.loads(line) for line in lines]
    row = next((row for row in rows[at:] if field in row), rows[at])
    row[field] = value
    file, out = tmp_path / "mill.jsonl", tmp_path / "out.db"
    file.write_text("\n".join(map(json.dumps, rows)))
    out.unlink(missing_ok=True)
    match _outcome(file, out):
        case JournalError(message=message):
            assert f"{file}` line {row['seq'] + 1}" in message or "cannot be applied" in message
        case _:
            assert verify(out).is_sound


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (pl.col("seq") + 1, "row 0, field `seq`: expected 0; found 1"),
        (pl.col("at_ms") + 1, "row 0, field `at_ms`: expected 0; found 1"),
        (pl.lit("x").alias("kind"), "row 0, field `kind`: expected `queue_set`; found `x`"),
        (pl.lit(None, pl.String).alias("body"), "row 0, field `body`: expected an event"),
        (pl.lit("{").alias("body"), "row 0, field `body`: it is not JSON"),
        (
            pl.lit('{"is":"woke","at_ms":-1}').alias("body"),
            "field `at_ms`: expected a whole number >= 0",
        ),
        (pl.lit(1).alias("body"), "column `body`: expected String; found Int32"),
        (pl.col("seq").cast(pl.String), "column `seq`: expected Int64; found String"),
    ],
    ids=range(8),
)
def test_a_wrong_row_is_named(tmp_path: Path, change: pl.Expr, said: str):
    """A table is as strict as lines: the row, the field and what was found are said."""
    file, out = tmp_path / "mill.parquet", tmp_path / "out.db"
    body = '{"is":"queue_set","at_ms":0,"queue":{"name":"red"}}'
    row = {"seq": 0, "at_ms": 0, "kind": "queue_set", "body": body}
    pl.DataFrame([row]).with_columns(change).write_parquet(file)
    with pytest.raises(JournalError) as refused:
        import_events(file, out)
    assert said in refused.value.message
    assert str(file) in refused.value.message
    assert not out.exists()


def test_a_damaged_table_is_named(tmp_path: Path, story: list[Event]):
    """A table that is cut or changed gives a kind error, or what it held before."""
    file, rng = tmp_path / "mill.parquet", Random("parquet")
    with open_journal(":memory:") as journal:
        journal.append(story)
        export_events(journal, file)
    whole = file.read_bytes()
    for n in range(60):
        data = bytearray(whole)
        data[rng.randrange(len(data))] ^= rng.randint(1, 255)
        file.write_bytes(data[: rng.choice((len(data), rng.randrange(len(data))))])
        match _outcome(file, tmp_path / f"{n}.db"):
            case JournalError(message=message):
                assert str(file) in message


def _outcome(file: Path, out: Path) -> exchange.Imported | JournalError:
    try:
        return import_events(file, out)
    except JournalError as error:
        return error


@pytest.mark.parametrize("facts", ["1", "null", '{"name":1}', '[["a","b"]]'])
def test_wrong_facts_are_named(tmp_path: Path, facts: str):
    """Facts that are not text by text are refused with the line they are in."""
    file = tmp_path / "mill.jsonl"
    file.write_text(f'{{"facts":{facts}}}\n')
    with pytest.raises(JournalError, match="line 1, field `facts`"):
        import_events(file, tmp_path / "out.db")
