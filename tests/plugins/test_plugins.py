"""An order, a placement score, a contract type and a ledger bucket, each added by one file."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.builders import beat, contract, decide, fleet, job, opening, placed, submit
from tests.ledger.stories import story
from tests.ledger.test_oracle import CONTENDED, compare, with_parents
from tests.plugins.added import EXAMPLES, as_before
from tidemill import api, extend
from tidemill.cli.main import app
from tidemill.engine.check import violations
from tidemill.engine.fold.one_event import fold
from tidemill.explain import rerun
from tidemill.journal import open_journal, policies
from tidemill.ledger import document, statement
from tidemill.ledger.account import Account
from tidemill.ledger.buckets import ABOUT, ADDED, BY_KEY, Bucket
from tidemill.ledger.span_binning import Window
from tidemill.ledger.turns import Turns
from tidemill.model import events as ev
from tidemill.model import plugins
from tidemill.model.errors import JournalError, SpecError
from tidemill.model.measures import HOUR_MS
from tidemill.model.policy import Policy
from tidemill.model.rows import Piece
from tidemill.model.world import World
from tidemill.reservation.types import ContractType


@pytest.fixture
def by_name() -> Iterator[Policy]:
    """An order by the job's name: jobs of one shape are told apart."""
    with as_before():
        extend.add_order("by-name", lambda job, _: int(job.name))
        yield Policy(order="by-name", backfill="none")


def widest() -> Policy:
    """The order of the example."""
    return Policy(order="widest", backfill="none")


# A queueing order ------------------------------------------------------------------------------


@pytest.mark.usefixtures("plugins")
def test_the_scheduler_goes_by_the_order():
    """The widest job is placed, though a narrow one that would fit too came first."""
    world = fleet(nodes=1)
    submit(world, job("narrow", gpus=1), job("wide", gpus=8))
    assert list(placed(world, decide(world, widest()))) == ["wide"]


def test_jobs_of_one_shape_are_told_apart(by_name: Policy):
    """Of jobs that ask for the same, those are placed that the order puts first."""
    world = fleet(nodes=1)
    submit(world, *(job(name, gpus=4) for name in ("3", "1", "2")))
    assert list(placed(world, decide(world, by_name))) == ["1", "2"]


def test_the_plan_checker_goes_by_the_order(by_name: Policy):
    """A plan that places a job before one that asks for the same and goes first is refused."""
    world = fleet(nodes=1)
    submit(world, job("2"), job("1"))
    found = [
        violations(world, ev.Plan((ev.AskedPlace(0, j, 1, (Piece(0, 0, 1, 1),)),), 0), by_name)
        for j in (0, 1)
    ]
    assert found == [["job `2` is placed before `1`, which asks for the same and is next"], []]


@pytest.mark.usefixtures("plugins")
def test_ledger_and_explanations_go_by_the_order():
    """Whose turn it is to claim what is free, and who is ahead of whom, is said by the order."""
    world = fleet(nodes=1)
    submit(world, job("runs", gpus=8))
    beat(world, widest())
    submit(world, *(job(f"w{gpus}", gpus=gpus) for gpus in (1, 4, 2)))
    wanted = ["w4", "w2", "w1"]
    shapes = [int(world.jobs.shape[world.job_number[name]]) for name in wanted]
    assert Turns(widest()).ask(world) == shapes
    ahead = rerun.in_order(world, widest(), rerun.Glance(world))
    assert [world.job_names[j] for j in ahead] == wanted


@pytest.mark.usefixtures("plugins")
def test_free_time_is_claimed_in_the_order():
    """The naive ledger, which asks the plan checker's order, divides what is free alike."""
    for seed in CONTENDED[:2]:
        compare(with_parents(story(seed, 120)), Window(bin_ms=31), widest())


# A placement score -----------------------------------------------------------------------------


@pytest.mark.usefixtures("plugins")
@pytest.mark.parametrize("milli", [1000, 250])
def test_the_score_chooses_the_node(milli: int):
    """The leanest node that can take it is chosen; a gang of whole accelerators is packed."""
    rows = [contract(name, cpu_milli=cpu) for name, cpu in (("a", 9), ("b", 5), ("c", 3))]
    world = fleet(*rows)
    submit(world, job("one", cpu_milli=4, milli=milli), job("two", cpu_milli=4, milli=milli))
    assert placed(world, decide(world, Policy(placement="lean-cpu"))) == {
        "one": {1: 1},
        "two": {0: 1},
    }


# A contract type -------------------------------------------------------------------------------


@pytest.mark.usefixtures("plugins")
def test_the_contract_type_says_what_is_paid():
    """Half of it is paid while nothing is launched, and what is launched where that is more."""
    world = World()
    fold(world, ev.ContractSigned(0, contract(gpus=32, terms="half_committed")))
    fold(world, ev.ContractStarted(0, 0))
    assert world.paid_milli(0) == 16_000
    assert [action for action in decide(world).actions if isinstance(action, ev.AskedLaunch)] == []


# A whole story ---------------------------------------------------------------------------------


@pytest.mark.usefixtures("plugins")
def test_a_whole_story_with_all_of_them(tmp_path: Path):
    """Every plan passes the checker, and every paid millisecond is in one bucket.

    What the new bucket holds is missing in the one that it is a part of, and in no other.
    """
    journal = str(tmp_path / "plugins.sqlite")
    run = api.simulate(api.load_spec(EXAMPLES / "fleet.toml"), journal)
    whole, number = run.statement.total(), BY_KEY["idle_notebooks"]
    assert list(ABOUT)[list(ABOUT).index(Bucket.IDLE) + 1] == number
    assert whole.milli_ms[number] > 0
    lines = {line.key: line.milli_ms for line in document.document(run.statement).lines}
    assert lines["idle_notebooks"] == whole.milli_ms[number]
    assert int(run.statement.paid.sum()) == whole.paid_milli_ms == sum(whole.milli_ms)
    assert whole.milli_ms[Bucket.NOT_LAUNCHED] > 0, "nothing was committed and not launched"
    assert run.statement.by("contract")["more"].paid_milli_ms == _paid_milli_ms(journal, "more")
    assert api.read_statement(journal).total() == whole
    parts, kept = whole.milli_ms, _without_the_bucket(journal).milli_ms
    assert kept[Bucket.IDLE] == parts[Bucket.IDLE] + parts[number]
    assert [kept[b] for b in Bucket if b != Bucket.IDLE] == [
        parts[b] for b in Bucket if b != Bucket.IDLE
    ]


def _paid_milli_ms(journal: str, name: str) -> int:
    """Half of what was signed for, or what was launched where that is more, moment by moment."""
    world, paid = World(), 0
    with open_journal(journal) as kept:
        for event in kept.read():
            c = next((c for c, row in enumerate(world.contract_rows) if row.name == name), None)
            if c is not None and world.contracts.is_running[c]:
                half = world.contract_rows[c].count * 1000 // 2
                launched = int(world.contracts.launched_milli[c])
                paid += max(half, launched) * (event.at_ms - world.now_ms)
            fold(world, event)
    return paid


def _without_the_bucket(journal: str) -> Account:
    with as_before():
        del ABOUT[ADDED.pop().bucket]
        return api.read_statement(journal).total()


@pytest.mark.usefixtures("plugins")
def test_a_bucket_that_takes_too_much_is_refused():
    """A part is never more than the whole, whatever the plug-in says."""
    extend.add_bucket("more", "more", part_of="no_demand", part=lambda _, rows: rows.milli_ms + 1)
    with pytest.raises(SpecError, match="takes more of `no_demand` than there is"):
        statement.read([*opening(contract()), ev.Woke(HOUR_MS)])


# What they may not answer ------------------------------------------------------------------------


def _broken(*_: object) -> int:
    return 1 // 0


BAD_NUMBERS: dict[str, tuple[Callable[..., Any], str]] = {
    "a fraction": (lambda *_: 0.5, "gave `0.5` (float)"),
    "a float that is whole": (lambda *_: 2.0, "gave `2.0` (float)"),
    "text": (lambda *_: "3", "gave `'3'` (str)"),
    "nothing": (lambda *_: None, "gave `None` (NoneType)"),
    "more than 64 bits": (lambda *_: 2**63, f"gave `{2**63}` (int)"),
    "what cannot be printed": (lambda *_: 10**5000, "gave `what cannot be printed` (int)"),
    "an exception": (_broken, "ZeroDivisionError"),
}


@pytest.mark.parametrize(("answer", "told"), BAD_NUMBERS.values(), ids=BAD_NUMBERS)
def test_a_number_that_cannot_be_compared_is_refused(answer: Callable[..., Any], told: str):
    """An order, a score or a contract type that gives no whole number of 64 bits is refused.

    A fraction was cut off in the scheduler's columns and kept in explanations, so that `pending`
    showed another order than the one that jobs were placed in; the others were tracebacks.
    """
    world = fleet(nodes=1)
    submit(world, job("t5", milli=500))
    with as_before():
        extend.add_order("odd", answer)
        extend.add_score("odd", answer)
        extend.add_contract_type("odd", ContractType(answer, is_elastic=True))
        asked: list[tuple[str, Callable[[], object]]] = [
            ("order `odd` of .* job `t5`", lambda: decide(world, Policy(order="odd"))),
            ("placement `odd` of .* node `", lambda: decide(world, Policy(placement="odd"))),
            ("contract type `odd` of .* contract `", lambda: fleet(contract(terms="odd"))),
        ]
        for subject, ask in asked:
            with pytest.raises(SpecError, match=f"the {subject}") as refused:
                ask()
            assert told in refused.value.message
            assert f"module `{answer.__module__}`" in refused.value.message
            assert refused.value.hint


@pytest.mark.parametrize("count", [-1, 9])
def test_a_contract_commits_to_no_more_than_it_has(count: int):
    """A type that commits to more than the contract, or to less than nothing, is refused."""
    with as_before():
        extend.add_contract_type("odd", ContractType(lambda _: count, is_elastic=True))
        with pytest.raises(SpecError, match=rf"gave `{count}` \(int\) .*from 0 to 8"):
            fleet(contract(gpus=8, terms="odd"))


@pytest.mark.parametrize(
    ("part", "told"),
    [
        (lambda _, rows: rows.milli_ms / 2, "type float64"),
        (lambda _, rows: rows.milli_ms[:0], r"shape \(0,\)"),
        (lambda *_: [[1], [1, 2]], "list of shape"),
        (_broken, "failed for 1 rows of `no_demand`: ZeroDivisionError"),
    ],
)
def test_a_part_of_a_bucket_is_whole_numbers(part: Callable[..., Any], told: str):
    """Halves were cut off: of each row, up to a milli-ms less went into the new bucket."""
    with as_before():
        extend.add_bucket("odd", "odd", part_of="no_demand", part=part)
        with pytest.raises(SpecError, match=f"the bucket `odd` of the plug-in .*{told}"):
            statement.read([*opening(contract()), ev.Woke(HOUR_MS)])


def test_a_run_that_a_plug_in_ends_leaves_no_journal(tmp_path: Path):
    """Once the plug-in is repaired the same command runs; it was refused for what was left over."""
    where = tmp_path / "run.sqlite"
    spec = tmp_path / "fleet.toml"
    spec.write_text(SMALL)
    with as_before():
        extend.add_order("odd", BAD_NUMBERS["a fraction"][0])
        with pytest.raises(SpecError, match="the order `odd`"):
            api.simulate(api.load_spec(spec), str(where))
        assert list(tmp_path.iterdir()) == [spec]
    with as_before():
        extend.add_order("odd", lambda job, _: job.submit_ms // 7)
        api.simulate(api.load_spec(spec), str(where))
        before = where.read_bytes()
        with pytest.raises(SpecError, match="exists already"):
            api.simulate(api.load_spec(spec), str(where))
    assert where.read_bytes() == before, "a journal that was there before stays"


def test_a_run_that_a_plug_in_ends_replaces_nothing(tmp_path: Path):
    """Also where it was told to (`--force`): a good journal was gone, and nothing in its place."""
    where, spec = tmp_path / "run.sqlite", tmp_path / "fleet.toml"
    spec.write_text(SMALL)
    words = ["twin", "run", str(spec), "-j", str(where), "--force"]
    with as_before():
        extend.add_order("odd", lambda job, _: job.submit_ms // 7)
        assert CliRunner().invoke(app, words).exit_code == 0
        before = where.read_bytes()
        assert CliRunner().invoke(app, words).exit_code == 0, "it is replaced by one that is whole"
    with as_before():
        extend.add_order("odd", BAD_NUMBERS["a fraction"][0])
        assert isinstance(CliRunner().invoke(app, words).exception, SpecError)
    assert len(where.read_bytes()) == len(before)
    assert sorted(tmp_path.iterdir()) == [spec, where]


SMALL = """
[twin]
horizon = "1h"
[policy]
order = "odd"
[[contract]]
name = "h100"
kind = "H100"
count = 8
usd_per_hour = 2.0
[[team]]
name = "lab"
[[job]]
name = "one"
team = "lab"
accelerators = 1
work = "10m"
"""


# How they are found ----------------------------------------------------------------------------


def test_installed_plug_ins_are_known_to_every_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """A package that names its modules under `tidemill.plugins` is enough; without, it is said."""
    fleet_file = str(EXAMPLES / "fleet.toml")
    unknown = CliRunner().invoke(app, ["twin", "load", fleet_file])
    assert isinstance(unknown.exception, SpecError)
    assert "`order`: expected one of fifo, priority, shortest, smallest, attained" in str(
        unknown.exception
    )
    assert "`pip install` the package that brings it" in unknown.exception.hint
    assert "(plug-ins installed here: none)" in unknown.exception.hint
    info = tmp_path / "examples-1.0.dist-info"
    info.mkdir()
    names = "\n".join(f"{path.stem} = {path.stem}" for path in sorted(EXAMPLES.glob("*.py")))
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: examples\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[tidemill.plugins]\n{names}\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.setattr(plugins, "LOADED", [])
    other = tmp_path / "other.toml"
    other.write_text(SMALL.replace('"odd"', '"wide"'))
    with as_before():
        done = CliRunner().invoke(app, ["twin", "load", fleet_file])
        unknown = CliRunner().invoke(app, ["twin", "load", str(other)])
        facts = policies.facts(Policy(order="widest"))
    assert done.exit_code == 0, done.exception
    assert isinstance(unknown.exception, SpecError)
    assert "did you mean `widest`? Or, if a plug-in adds this order" in unknown.exception.hint
    assert "`lean_cpu` of package `examples`" in unknown.exception.hint
    with pytest.raises(JournalError) as refused:
        policies.of(facts, "plugins.sqlite")
    assert "`widest_first` of package `examples`" in refused.value.hint


@pytest.mark.usefixtures("plugins")
def test_a_name_is_given_once():
    """A second row of one name is refused, as is a part of a bucket that there is not."""
    with pytest.raises(SpecError, match="`widest` is the name of another order"):
        extend.add_order("widest", lambda *_: 0)
    with pytest.raises(SpecError, match="there is no bucket `nowhere`"):
        extend.add_bucket("x", "x", part_of="nowhere", part=lambda _, rows: rows.milli_ms)


@pytest.mark.usefixtures("plugins")
def test_a_score_stands_alone():
    """The score of a plug-in is not combined with others."""
    with pytest.raises(ValueError, match="a plug-in's placement by itself"):
        Policy(placement=("lean-cpu", "pack"))
