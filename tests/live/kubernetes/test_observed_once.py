"""A cluster that is asked once or twice, as people do who try it: what `why` says then."""

from pathlib import Path

from tests.live.kubernetes.made import BEGIN_MS, Object, node, pod, taken
from tidemill import api, explain
from tidemill.cli import ledger_tables
from tidemill.explain.answers import Answer
from tidemill.live.history.advance import SourceAnswer
from tidemill.live.kubernetes.translate import translate
from tidemill.live.observing.observer import Observer, ObserverTerms
from tidemill.live.prices.rules import flat


class Shown:
    """A cluster that shows the same objects whenever it is asked."""

    name = "kubernetes"

    def __init__(self, now: int, *objects: Object) -> None:
        self._now, self._objects = now, objects

    def now_ms(self) -> int:
        """Its clock."""
        return BEGIN_MS + 1000 * self._now

    def poll(self, since_ms: int) -> SourceAnswer:
        """All of it."""
        past = translate(taken(*self._objects), looks_back=False)
        return SourceAnswer(past.attempts, past.nodes, self.now_ms(), shapes=past.shapes)


def answers(where: str, now: int, *objects: Object) -> dict[str, Answer]:
    """What `why` says of each job after one look, or one more."""
    terms = ObserverTerms(flat({"": 2_000_000}), lateness_ms=0)
    with Observer.open(where, Shown(now, *objects), terms) as observer:
        observer.ask()
    world, policy = api.open_world(where)
    return {name: explain.why(world, policy, j) for name, j in world.job_number.items()}


def test_jobs_that_were_there_before_are_as_old_as_they_are(tmp_path: Path):
    """One runs for 140 seconds and one waits since the same moment: neither came with the look."""
    runs, later = pod("runs", 6, on="n0", created=0), pod("z-later", 2, on="n0", created=30)
    waits = pod("waits", 8, created=0)
    found = answers(str(tmp_path / "j.sqlite"), 140, node("n0", at=140), runs, waits, later)
    assert "it began to run 2m" in found["ml/runs"].words
    assert "2m" in found["ml/waits"].words.splitlines()[0]
    passed = [fact.words for fact in found["ml/waits"].evidence if fact.name == "passed by"]
    assert len(passed) == 1
    assert passed[0].startswith("1 job submitted later was placed while it waited")


def test_a_node_that_is_gone_is_in_no_count(tmp_path: Path):
    """Of two nodes of a kind one is deleted: the same number everywhere in the answer."""
    where, waits = str(tmp_path / "j.sqlite"), pod("x", 1, spec={"nodeSelector": {"pool": "b"}})
    runs = pod("runs", 1, on="n0")
    answers(where, 100, node("n0", at=100), node("n1", at=100), waits, runs)
    found = answers(where, 200, node("n0", at=200), waits, runs)["ml/x"].words
    assert "none of the 8 accelerators of any type in the cluster" in found
    assert "16" not in found


def test_without_nodes_what_is_free_and_idle_is_unknown_and_never_zero(tmp_path: Path):
    """Pods may be read, nodes not: one job runs and one waits."""
    where = str(tmp_path / "j.sqlite")
    answers(where, 140, pod("runs", 2, on="n0"), pod("waits", 8))
    board = explain.board(*api.open_world(where))
    assert [row.idle_usd_micro_per_hour for row in board.rows] == [None]
    told = "\n".join(ledger_tables.summary(api.read_statement(where)))
    assert "allocation ≤ 100.0% (not all nodes are listed)" in told
    assert "no job was submitted in this window; 1 job of before waits still" in told


def test_whole_gpus_stay_whole_beside_a_node_that_is_cut(tmp_path: Path):
    """Four of eight GPUs are cut into seven small and two larger instances, seen after the job."""
    where, waits = str(tmp_path / "j.sqlite"), pod("x", 16)
    runs = pod("runs", 8, on="n0")
    cut = {"nvidia.com/gpu": "4", "nvidia.com/mig-1g.10gb": "7", "nvidia.com/mig-3g.40gb": "2"}
    m0 = node("m0", at=200, amounts=cut, labels={"nvidia.com/gpu.count": "8"})
    answers(where, 100, node("n0", at=100), waits, runs)
    answers(where, 200, node("n0", at=200), m0, waits, runs)
    board = explain.board(*api.open_world(where))
    assert (board.asked_milli, board.free_milli) == (16_000, 8_000)
    assert (board.waiting[0].accelerator_milli, board.waiting[0].least_milli) == (16_000, 16_000)
