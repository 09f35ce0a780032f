"""A cluster that is asked once or twice, as people do who try it: what `why` says then."""

from pathlib import Path

from tests.live.kubernetes.made import BEGIN_MS, Object, node, pod, taken
from tidemill import api, explain
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

    def poll(self, since_ms: int) -> SourceAnswer:  # noqa: ARG002 - as of every source
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
