"""Sources that contradict each other, watched: the doctor names them, the lines and what to do.

Small programs stand for Slurm's commands; the Prometheus is real.
"""

import json
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.cli.shell import tidemill
from tests.live.observing import test_measured
from tests.live.observing.test_measured import us
from tests.live.observing.test_observer import BEGIN_S, NODE, TERMS, Cluster
from tests.rigs.prometheus import series, server
from tests.rigs.slurm.cluster import quick_folder
from tidemill.live.observing.measuring import LoopsMeasuring, Measuring, PrometheusMeasuring
from tidemill.live.observing.observer import AnswerTaken, Observer

DOWN = NODE.replace("State=IDLE", "State=DOWN")
FOUR = NODE.replace("gpu:h100:8", "gpu:h100:4").replace("gres/gpu=8", "gres/gpu=4")
HOLDS = {"id": 7, "gpus": 8, "submit": 10, "start": 20}


def a_loop(*told: Any) -> list[dict[str, Any]]:
    """A loop that uses all GPUs that its job holds, each as those of ``test_measured``."""
    return [
        one | {"gpus": HOLDS["gpus"]} if one["is"] == "job_began"
        else one | {"mflop": one["mflop"] * HOLDS["gpus"] // 2} if "mflop" in one
        else one
        for one in test_measured.a_loop(*told)
    ]  # fmt: skip


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    folder = tmp_path / "bin"
    folder.mkdir()
    return Cluster(folder)


@pytest.fixture(scope="module")
def busy() -> Iterator[str]:
    """A real Prometheus with nodes of eight GPUs: n1 is busy, n2 too, n3 stands still."""
    if reason := server.missing():
        pytest.skip(f"this test starts a real Prometheus, and cannot: {reason}")
    began_s = BEGIN_S - series.BEGIN_S
    told = [
        series.Recorded(
            "DCGM_FI_PROF_GR_ENGINE_ACTIVE", series.dcgm(node, gpu),
            [(began_s + s, share) for s in range(0, 2400, 30)],
        )
        for node, share in (("n1", 0.97), ("n2", 0.95), ("n3", 0.01)) for gpu in range(8)
    ]  # fmt: skip
    with (
        tempfile.TemporaryDirectory(prefix="tidemill-", dir=quick_folder()) as folder,
        server.running(Path(folder), series.lines(told)) as url,
    ):
        yield url


def watch(cluster: Cluster, where: Path, measuring: Sequence[Measuring]) -> AnswerTaken:
    """Ask once, as a process that knows nothing but the journal."""
    with Observer.open(str(where), cluster.source, TERMS, BEGIN_S * 1000, measuring) as observer:
        return observer.ask()


def doubts(where: Path) -> dict[str, dict[str, Any]]:
    """What `tidemill doctor` says of contradictions."""
    ran = tidemill("doctor", str(where), "--json")
    assert ran.code == 0, ran.err
    return {one["what"]: one for one in json.loads(ran.out) if "contradiction" in one["what"]}


def test_sources_that_agree_are_not_doubted(cluster: Cluster, busy: str, tmp_path: Path):
    """Two jobs that hold what is busy, a node that stands still, and nothing else."""
    where = tmp_path / "fleet.sqlite"
    cluster.print("scontrol", "".join(NODE.format(n=n) for n in (1, 2, 3)))
    for now in (1000, 1600):
        cluster.at(now, HOLDS, HOLDS | {"id": 8, "node": "n2"})
        watch(cluster, where, [PrometheusMeasuring(busy)])
    assert doubts(where) == {}


@pytest.mark.parametrize(
    ("node", "title", "word", "so"),
    [
        (DOWN, "down by the scheduler, and busy by its GPUs", "unhealthy",
         "`unhealthy or in repair`; the scheduler's word is booked. look at the node: "),
        (NODE, "held by nobody by the scheduler, and busy by its GPUs", "free",
         "`cordoned`, `draining`, free; the scheduler's word is booked. look who uses them"),
    ],
)  # fmt: skip
def test_a_node_that_slurm_calls_out_or_free_is_busy(  # noqa: PLR0917 - a table of cases
    cluster: Cluster, busy: str, tmp_path: Path, node: str, title: str, word: str, so: str
):
    """Source, contradiction, lines in doubt, what to do; said by the observer once."""
    where, said = tmp_path / "fleet.sqlite", list[str]()
    cluster.print("scontrol", NODE.format(n=1) + node.format(n=2))
    for now in (1000, 1600):
        cluster.at(now, HOLDS)
        said += watch(cluster, where, [PrometheusMeasuring(busy)]).notes
    assert sum("`n2`:" in note for note in said) == 1
    (found,) = doubts(where).values()
    assert found["what"] == f"contradiction: {title}"
    says = f"`n2`: {word} by the scheduler; 8 GPUs busy, up to 95 % by {busy}, 2026-11-"
    assert found["found"].startswith(f"1 node: {says}")
    assert found["so"].startswith(f"doubtful of that time: {so}")


def test_two_sources_count_other_gpus_of_a_node(cluster: Cluster, busy: str, tmp_path: Path):
    """Slurm lists four, the exporter shows eight: paid is doubtful."""
    where = tmp_path / "fleet.sqlite"
    cluster.print("scontrol", NODE.format(n=1) + FOUR.format(n=2))
    cluster.at(1600, HOLDS, HOLDS | {"id": 8, "gpus": 4, "node": "n2"})
    watch(cluster, where, [PrometheusMeasuring(busy)])
    (found,) = doubts(where).values()
    assert f"`n2`: 4 GPUs by the scheduler; 8 by {busy}" in found["found"]
    assert "paid" in found["so"]
    assert "nvidia-smi -L" in found["so"]


def test_a_job_runs_on_after_its_loop_ended(cluster: Cluster, tmp_path: Path):
    """Not yet after four minutes; then said until the scheduler says that it ended too."""
    where, folder = tmp_path / "fleet.sqlite", tmp_path / "track"
    folder.mkdir()
    records = a_loop(7, 0, 25, 30, 90, Random(1))
    (folder / "a.jsonl").write_text("".join(json.dumps(one) + "\n" for one in records))
    told = LoopsMeasuring(folder)
    cluster.at(300, HOLDS)
    watch(cluster, where, [told])
    assert doubts(where) == {}
    for now in (600, 900):
        cluster.at(now, HOLDS)
        watch(cluster, where, [told])
    (found,) = doubts(where).values()
    assert found["what"] == "contradiction: running by the scheduler, and ended by its loop"
    assert "`7`: running by the scheduler; its loop ended 2026-11-" in found["found"]
    assert "`allocated, idle`" in found["so"]


def test_a_loop_that_says_more_than_its_gpus_can_do(cluster: Cluster, tmp_path: Path):
    """Said by the observer once, kept for the doctor, and booked as unknown."""
    where, folder = tmp_path / "fleet.sqlite", tmp_path / "track"
    folder.mkdir()
    records = [
        one | {"mflop": 3 * one["mflop"]} if "mflop" in one else one
        for one in a_loop(7, 0, 25, 30, 890, Random(1))[:-1]
    ]
    (folder / "a.jsonl").write_text("".join(json.dumps(one) + "\n" for one in records))
    told, said = LoopsMeasuring(folder), list[str]()
    for now in (300, 600, 900):
        cluster.at(now, HOLDS)
        said += watch(cluster, where, [told]).notes
    assert sum("times the peak of a GPU of type" in note for note in said) == 1
    (found,) = doubts(where).values()
    assert found["what"] == "contradiction: more FLOP/s than the GPUs can do"
    assert found["so"].startswith("not booked: `useful`, `below peak, split unknown`; the work of")
    lines = json.loads(tidemill("ledger", str(where), "--json").out)["lines"]
    known = {line["key"]: line["milli_ms"] for line in lines}
    assert known["unknown"] > 0
    assert not known.keys() & {"useful", "below_peak"}


def test_a_loop_that_was_started_again_has_not_ended(cluster: Cluster, tmp_path: Path):
    """Its first launch ended; its second goes on in the same attempt."""
    where, folder = tmp_path / "fleet.sqlite", tmp_path / "track"
    folder.mkdir()
    again = [one | {"run": "second"} for one in a_loop(7, 0, 100, 105, 890, Random(1))[:-1]]
    records = [*a_loop(7, 0, 25, 30, 90, Random(1)), *again]
    (folder / "a.jsonl").write_text("".join(json.dumps(one) + "\n" for one in records))
    cluster.at(900, HOLDS)
    watch(cluster, where, [LoopsMeasuring(folder)])
    assert doubts(where) == {}


def moved(records: list[dict[str, Any]], ahead_s: int) -> list[dict[str, Any]]:
    """The records of a machine whose clock is ahead."""
    times = ("at_us", "from_us", "until_us")
    return [
        one | {name: one[name] + 1_000_000 * ahead_s for name in times if name in one}
        for one in records
    ]


@pytest.mark.parametrize("ahead_s", [300, -300])
def test_a_clock_that_lies_by_five_minutes_is_said_and_declared_it_is_right(
    cluster: Cluster, tmp_path: Path, ahead_s: int
):
    """`ahead`: the books are those of a clock that is right, to the millisecond."""
    records = a_loop(7, 0, 25, 30, 900, Random(1))
    ended = HOLDS | {"end": 905, "state": "COMPLETED"}
    books = dict[str, Any]()
    for name, wrong_s, declared_s in (("right", 0, 0), ("wrong", ahead_s, 0),
                                      ("declared", ahead_s, ahead_s)):  # fmt: skip
        folder, where = tmp_path / name, tmp_path / f"{name}.sqlite"
        folder.mkdir()
        told = LoopsMeasuring(folder, ahead_ms=1000 * declared_s)
        for now in range(200, 1500, 100):
            here = [one for one in records if _ends_us(one) < us(now)]
            text = "".join(json.dumps(one) + "\n" for one in moved(here, wrong_s))
            (folder / "a.jsonl").write_text(text)
            cluster.at(now, HOLDS if now < 905 else ended)
            watch(cluster, where, [told])
        books[name] = json.loads(tidemill("ledger", str(where), "--json").out)["lines"]
        assert bool(doubts(where)) == (name == "wrong")
    (found,) = doubts(tmp_path / "wrong.sqlite").values()
    assert "loops that ran while their job held nothing" in found["what"]
    assert "after its end" in found["found"] if ahead_s > 0 else "before its start"
    assert "--track-ahead" in found["so"]
    assert books["declared"] == books["right"] != books["wrong"]


def _ends_us(record: dict[str, Any]) -> int:
    found: int = record.get("until_us") or record["at_us"]
    return found
