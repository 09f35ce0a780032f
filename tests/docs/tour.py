"""The numbers that the pages quote: the demo is run, and what it says is written into the pages.

``python -m tests.docs.tour`` writes them; a test compares. So every figure of the README was seen.
"""

import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from typer.testing import CliRunner

from tests.docs import pages
from tests.journal.parts import beginning
from tidemill import api
from tidemill.cli.main import app
from tidemill.ledger import ratios
from tidemill.ledger.buckets import GROUP_TITLES
from tidemill.ledger.document import LedgerDocument, document

BAR = 50  # characters for everything that was paid
JOURNAL = "out/demo.sqlite"
README, FIRST, COMPARE, WHY, EXPLAIN, FRAGMENTS = (
    "README.md",
    "docs/guides/first-steps.md",
    "docs/guides/compare-two-policies.md",
    "docs/guides/why-is-it-waiting.md",
    "docs/concepts/explain.md",
    "docs/concepts/fragmentation.md",
)
PAGES = (README, FIRST, COMPARE, WHY, EXPLAIN, FRAGMENTS)
UNITS = {
    "unit fit llama-3-70b --on h100 --train": "fits",
    "unit roofline llama-2-13b --on h100 --batch 1": "binds",
    "unit step llama-3-70b --on p5.48xlarge --gpus 256 --tp 8 --pp 4": "tokens/s",
    "unit mig h100 --mix 1g.10gb=4,3g.40gb=1": "1 device",
    "unit share serve train --on h200": "advice",
    "unit balance g6e.xlarge --mix vision": "◀",
    "unit compare a100 h100": "memory TB/s",
}
"""Commands about one unit, and a word of the line of each that says the most."""
KEPT = (
    "unhealthy",
    "free: no demand",
    "free: fragmented",
    "free: quota",
    "free: held for a gang",
    "allocated, idle",
    "lost: rework",
    "stalled: host",
    "memory-bound",
    "below the attainable roof",
    "below peak, split unknown",
    "useful ",
    "goodput",
    "one idle",
)


def write() -> None:
    """Run the demo and bring every page that quotes it up to date."""
    for page, parts in seen().parts.items():
        text = pages.text_of(page)
        (pages.ROOT / page).write_text(pages.with_made(text, parts), encoding="utf-8")


class Seen(NamedTuple):
    """What the demo printed and left, and what it and its neighbours say by page and part."""

    story: str
    journal_bytes: int
    report: str
    parts: dict[str, dict[str, str]]
    resumed: str
    """What it prints when it was interrupted after some events and goes on."""


def seen() -> Seen:
    """Run the demo, once, and ask it everything that pages quote."""
    with _elsewhere():
        story = _say("demo")
        size = Path(JOURNAL).stat().st_size
        page = Path("out/demo.html").read_text(encoding="utf-8")
        return Seen(story, size, page, _parts(story), _resumed())


def _resumed() -> str:
    """The same demo, gone on with from its first events in another folder."""
    Path("again").mkdir()
    beginning(Path(JOURNAL), Path("again/demo.sqlite"), 2_000)
    return _say("demo", "--resume", "--out", "again").replace("again/", "out/")


def _parts(story: str) -> dict[str, dict[str, str]]:
    asked = re.search(r"tidemill why (\S+) -j \S+ --at (\S+)", story)
    assert asked is not None, "the demo names no job that waits"
    job, at = asked.groups()
    return {
        README: {
            "picture": _picture(story),
            "tour": "\n".join(_tour(job, at)),
            "unit": _shown([_line_with(*one) for one in UNITS.items()]),
        },
        FIRST: {"waiting": _shown(_waiting(job, at))},
        COMPARE: _comparison(),
        WHY: _asked(job, at),
        EXPLAIN: {"why": _answer(job, at)},
        FRAGMENTS: {"fleet": _shown([_run(f"fleet -j {JOURNAL} --at 9d12h")])},
    }


# The README -----------------------------------------------------------------------------------


def _picture(story: str) -> str:
    """The waterfall, and the two prices that it is about."""
    statement = api.read_statement(JOURNAL)
    found, bound = document(statement), ratios.goodput(statement.total()).is_lower_bound
    fleet, jobs = story.splitlines()[:2]
    _, _, counts = fleet.partition("fleet of ")
    intro = f"{counts.split(' under')[0]}; {jobs.split(':')[0]}; failures, repairs, spot reclaims."
    hour, useful = found.totals.usd_micro_per_paid_hour, found.totals.usd_micro_per_useful_hour
    assert hour is not None, "the demo pays"
    assert useful is not None, "some of it is useful"
    allocation = float(found.utilisation.allocation.decimal)
    return (
        f"Two weeks of the fleet that ships with Tidemill: {intro}\n"
        "Bars are shares of paid accelerator-time; the lines add up to the cent.\n\n"
        "```text\n" + "\n".join(_waterfall(found)) + "\n```\n\n"
        f"A dashboard would call this fleet {allocation:.1%} allocated. An hour costs"
        f" ${hour / 1e6:.2f}; a *useful* hour\ncosts {'at most ' * bound}${useful / 1e6:.2f}."
        " Each line has an owner, evidence, a confidence and a cheapest fix.\n"
    )


def _waterfall(found: LedgerDocument) -> Iterator[str]:
    tree = [line for line in _say("ledger", "-j", JOURNAL, "--tree").splitlines() if "$" in line]
    by_title = {match[1]: match.groups() for line in tree if (match := _BRANCH.match(line))}
    assert found.totals.usd_micro is not None, "a twin knows its prices"
    paid = found.totals.usd_micro / 1e6
    yield f"{'paid':<27}{f'${paid:,.2f}':>12}  100.00 %  {'█' * BAR}"
    left = 10_000
    for title in GROUP_TITLES.values():
        if title not in by_title:
            continue
        _, dollars, percent = by_title[title]
        points = round(float(percent) * 100)
        start, end = (round(x * BAR / 10_000) for x in (left - points, left))
        bar = " " * start + ("█" * (end - start) or "▏")
        yield f"  {title:<25}{dollars:>12}  {percent:>6} %  {bar}"
        left -= points


_BRANCH = re.compile(r"^[├└]── (.+?)  (\$[\d,.]+)  ([\d.]+) %$")


def _tour(job: str, at: str) -> Iterator[str]:
    yield _shown([("ledger -j out/demo.sqlite", _shortened(_say("ledger", "-j", JOURNAL)))])
    yield _shown([_run("ledger -j out/demo.sqlite --by team")])
    yield _shown(_waiting(job, at))
    yield _shown([_first(_run(f"decision {job} -j out/demo.sqlite"), 19)])
    fit = f"fit -j out/demo.sqlite --at {at} --team research --gpus 64 --per-node 8 --kind H100"
    never = "fit -j out/demo.sqlite --team data --gpus 256 --kind H100"
    yield _shown([_first(_run(fit)), _first(_run(never), 2)])
    twin = _first(_run("twin run examples/serving-tide.toml -j tide.sqlite"), 2)
    verify = _run("journal verify out/demo.sqlite")
    doctor, said = _run("doctor -j out/demo.sqlite")
    unknown = "\n".join(line for line in said.splitlines() if "ledger line" in line)
    report = _run("report report.html -j out/demo.sqlite")
    yield _shown([report, twin, (verify[0], _no_digest(verify[1])), (doctor, "…\n" + unknown)])


def _waiting(job: str, at: str) -> list[tuple[str, str]]:
    line, said = _run(f"why {job} -j out/demo.sqlite --at {at}")
    asked = [text for text in said.splitlines() if not text.startswith("       ")]
    end = next(
        (i for i, text in enumerate(asked) if text.startswith("commands that show")), len(asked)
    )
    return [_run(f"pending -j out/demo.sqlite --at {at} --limit 5"), (line, "\n".join(asked[:end]))]


def _asked(job: str, at: str) -> dict[str, str]:
    """The guide to waiting: the whole answer, a few nodes, and jobs that are not submitted yet."""
    why = f"why {job} -j {JOURNAL} --at {at}"
    told = _say(*why.split(), "--nodes").splitlines()
    begins = max(i for i, line in enumerate(told) if line.split()[:1] == ["node"])
    reasons: dict[str, str] = {}
    for line in told[begins + 1 :]:
        reasons.setdefault(re.sub(r"[0-9]+", "0", line[30:]), line)
    fit = f"fit -j {JOURNAL} --at {at}"
    fits = (
        f"{fit} --team research --gpus 1 --kind A100",
        f"{fit} --team research --gpus 64 --per-node 8 --kind H100",
        f"{fit} --team research --gpus 128 --per-node 16 --kind H100",
    )
    return {
        "why": _shown([_run(f"{why} --eta")]),
        "nodes": _block([told[begins], *list(reasons.values())[:6]]),
        "decision": _shown([_run(f"decision {job} -j {JOURNAL} --at {at}")]),
        "fit": _shown([_first(_run(line), 2) for line in fits]),
    }


def _answer(job: str, at: str) -> str:
    (_, (_, said)) = _waiting(job, at)
    words = f"That is `tidemill why {job} --at {at}` on the journal of the demo.\n"
    return _block(said.splitlines()) + "\n" + words


def _line_with(line: str, word: str) -> tuple[str, str]:
    """A command, and the first line of its output that has this word."""
    lines = _say(*line.split()).splitlines()
    return line, next((text.strip() for text in lines if word in text), lines[0].strip())


def _block(lines: list[str]) -> str:
    return "```text\n" + "\n".join(line.rstrip() for line in lines) + "\n```\n"


def _comparison() -> dict[str, str]:
    """The example with which two policies are compared."""
    spec = Path("examples/serving-tide.toml").read_text(encoding="utf-8")
    Path("pack.toml").write_text(spec, encoding="utf-8")
    spread = spec + '\n[policy]\nplacement = "spread"\n'
    Path("spread.toml").write_text(spread, encoding="utf-8")
    found = {}
    for name in ("pack", "spread"):
        _say("twin", "run", f"{name}.toml", "-j", f"{name}.sqlite")
        found[name] = document(api.read_statement(f"{name}.sqlite"))
    shares = {
        key: [_share(found[name], key) for name in ("pack", "spread")]
        for key in ("fragmented", "useful")
    }
    words = (
        "Here *fragmented* went from {:.2%} to {:.2%} of what was paid, and *useful* from {:.2%}"
        " to {:.2%}.\n"
    ).format(*shares["fragmented"], *shares["useful"])
    return {
        "diff": _shown([_run("ledger diff pack.sqlite spread.sqlite")]) + "\n" + words,
        "pending": _shown([_run("pending -j spread.sqlite --limit 5")]),
    }


def _share(found: LedgerDocument, key: str) -> float:
    (line,) = (line for line in found.lines if line.key == key)
    return line.share_ppm / 1e6


# Saying and showing ---------------------------------------------------------------------------


def _run(line: str) -> tuple[str, str]:
    return line, _say(*line.split())


def _say(*words: str) -> str:
    """What a command prints to stdout."""
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, f"tidemill {' '.join(words)}: {done.output} {done.exception}"
    return "\n".join(line.rstrip() for line in done.stdout.splitlines())


def _shown(commands: list[tuple[str, str]]) -> str:
    """Commands and what they print, as one block."""
    lines: list[Any] = []
    for line, said in commands:
        lines += [f"$ tidemill {line}", *said.strip("\n").splitlines()]
    return "```text\n" + "\n".join(lines) + "\n```\n"


def _first(told: tuple[str, str], lines: int = 1) -> tuple[str, str]:
    return told[0], "\n".join([*told[1].splitlines()[:lines], *["…"] * (lines == 1)])


def _shortened(said: str) -> str:
    """The head of the ledger, a few of its lines, and the last with what follows from it."""
    lines = said.splitlines()
    kept = [line for line in lines[3:] if line.strip().startswith(KEPT)]
    last = next(i for i, line in enumerate(kept) if line.strip().startswith("useful "))
    return "\n".join([*lines[1:3], *kept[:last], "   …", *kept[last:]])


def _no_digest(said: str) -> str:
    return re.sub(r"cluster state [0-9a-f]+", "cluster state …", said)


@contextmanager
def _elsewhere() -> Iterator[None]:
    """A folder of its own that has the examples, as a clone has them."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        Path("examples").symlink_to(pages.ROOT / "examples")
        try:
            yield
        finally:
            os.chdir(before)


if __name__ == "__main__":
    write()
