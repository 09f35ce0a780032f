"""A cluster whose objects are listed, watched and asked about, without a server; and its books."""

from collections.abc import Mapping

from tests.ledger.sums import amounts
from tests.live.history.test_advance import Observer
from tests.live.kubernetes.made import BEGIN_MS, Object
from tidemill import explain
from tidemill.core import snapshot
from tidemill.engine.fold.earlier import NodeLimit
from tidemill.explain.answers import Answer
from tidemill.journal import node_limits
from tidemill.ledger.buckets import Bucket
from tidemill.live.history import events
from tidemill.live.history.advance import SourceAnswer
from tidemill.live.kubernetes.api.client import WatchedChange
from tidemill.live.kubernetes.translate import translate
from tidemill.live.kubernetes.watching import kinds
from tidemill.live.kubernetes.watching.kind_copy import KindCopy
from tidemill.live.kubernetes.watching.kinds import ServedKind
from tidemill.live.kubernetes.watching.mirror import ClusterCopy
from tidemill.model import events as ev
from tidemill.model.policy import Policy
from tidemill.model.states import NodeState
from tidemill.model.world import World

LATENESS = 60


class WatchedCluster(ClusterCopy):
    """Objects that are watched since second 0, and a journal that is told of them.

    ``lateness``: the journal is told up to so many seconds before each look.
    """

    def __init__(self, *objects: Object, lateness: int = LATENESS) -> None:
        super().__init__(None, lambda: BEGIN_MS + 1000 * self.now + 400)  # type: ignore[arg-type]
        self.now, self._lateness = 0, lateness
        self.observer = Observer(BEGIN_MS)
        self._limits = list[tuple[str, NodeLimit]]()
        self._kind(kinds.PODS)
        self._kind(kinds.NODES)
        for one in objects:
            copy = self._of(one)
            copy.listed([one], set())

    def told(self, at: int, *objects: Object, how: str = "MODIFIED") -> None:
        """The watches tell of objects at a second."""
        self.now = at
        for one in objects:
            self._of(one).changed(WatchedChange(how, one))

    def deleted(self, at: int, *objects: Object) -> None:
        """The watches tell that objects are deleted."""
        self.told(at, *objects, how="DELETED")

    def look(self, *times: int) -> None:
        """The source is asked at these seconds."""
        for at in times:
            self.now = at
            shown = self.shown(BEGIN_MS + self.observer.world.now_ms)
            past = translate(shown, looks_back=False)
            now_ms = BEGIN_MS + 1000 * at
            answer = SourceAnswer(past.attempts, past.nodes, now_ms, shapes=past.shapes,
                                  queues=past.queues)  # fmt: skip
            self.observer.take(answer, now_ms - 1000 * self._lateness)
            self._limits = [*events.limits_of(past.nodes, self.observer.world)]

    def now_known(self) -> World:
        """The state as who asks is told it: with what nodes do not give now."""
        world = snapshot.copy(self.observer.world)
        kept = node_limits.facts({}, self._limits, world.now_ms, "journal")
        return node_limits.put_back(world, kept, "journal")

    def kept(self, before: Mapping[str, str]) -> dict[str, str]:
        """The fact beside the journal of what nodes do not give, after one that was kept before."""
        return node_limits.facts(before, self._limits, self.observer.world.now_ms, "journal")

    def why(self, name: str) -> Answer:
        """What `why` says of a job."""
        world = self.now_known()
        return explain.why(world, Policy(), world.job_number[name])

    def seconds(self, job: str | None = None) -> dict[str, int]:
        """GPU-seconds by bucket, of all or of one job."""
        books, found = self.observer.books(), dict[str, int]()
        for (bucket, j), amount in amounts(books, "bucket", "job").items():
            if job is None or (j >= 0 and books.world.job_names[j] == job):
                name = Bucket(bucket).name
                found[name] = found.get(name, 0) + amount // 1_000_000
        return found

    def moves(self) -> list[tuple[int, str, str]]:
        """Seconds, nodes and the states that they came to."""
        names = [row.name for row in self.observer.world.node_rows]
        return [(one.at_ms // 1000, names[one.node], NodeState(one.to).name)
                for one in self.observer.journal.read()
                if isinstance(one, ev.NodeMoved) and one.at_ms]  # fmt: skip

    def _of(self, one: Object) -> KindCopy:
        group, _, version = one["apiVersion"].rpartition("/")
        return self._kind(ServedKind(group, version, one["kind"], one["kind"].lower() + "s"))

    def _kind(self, kind: ServedKind) -> KindCopy:
        if kind not in self.copies:
            self.copies[kind] = KindCopy(kind, self._now_ms)
        return self.copies[kind]
