"""What jobs and nodes of a cluster are called in the journal, and which of their lives is now.

A job that is over, or a node that is gone, does not come back: what has its name later is its next
life (``live.history.telling``).
"""

from collections.abc import Callable, Iterator, Mapping
from itertools import count

from tidemill.live.history import telling
from tidemill.live.history.attempts import LONGEST_NAME
from tidemill.live.kubernetes.jobs import UnitKey
from tidemill.live.kubernetes.parts import machine
from tidemill.model.states import JobState, NodeState
from tidemill.model.world import World


class PresentLives:
    """The present life of each job and node, by what the cluster calls it."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._name_of: dict[UnitKey, str] = {}
        self._named: dict[str, UnitKey] = {}
        self._jobs: dict[UnitKey, int] = {}
        self._nodes: dict[str, int] = {}
        """Lives that were found once: as long as one is not over, no other has its name."""
        self._missed: tuple[UnitKey | None, int] = (None, 0)
        """Which had none, when there were so many jobs: it is asked several times in a row."""
        self.twins: dict[str, UnitKey] = {}
        """Jobs that are called like others but for their kind, and those others, by name."""
        self.on_twins: Callable[[], None] = lambda: None
        """Called when there are more of them, before anything is told of such a job."""

    def name(self, key: UnitKey) -> str:
        """What a job is called: its namespace and name; where several have the same, with its kind,
        and where several of a kind do, with a number.
        """
        if key not in self._name_of:
            plain = key.shown[:LONGEST_NAME]
            name = next(one for one in _names(plain, key.kind) if self._named.get(one, key) == key)
            self._name_of[key], self._named[name] = name, key
            if name != plain:
                self.twins |= {name: key, plain: self._named[plain]}
                self.on_twins()
        return self._name_of[key]

    def recall(self, twins: Mapping[str, UnitKey]) -> None:
        """Call these so again: which of several came first, the cluster does not say."""
        self.twins |= twins
        self._named |= twins
        self._name_of |= {key: name for name, key in twins.items()}

    def job(self, key: UnitKey) -> int | None:
        """The number of a job of ours in its present life; None: it is over, or never was."""
        world, j = self.world, self._jobs.get(key)
        if j is not None and world.jobs.state.item(j) <= JobState.RUNNING:
            return j
        missed = (key, world.job_count)
        if missed == self._missed:
            return None
        j = self.present(self.name(key))
        if j is None:
            self._missed = missed
            self._jobs.pop(key, None)
        else:
            self._jobs[key] = j
        return j

    def is_back(self, key: UnitKey, j: int) -> None:
        """A job that was over waits again."""
        self._jobs[key] = j

    def present(self, name: str) -> int | None:
        """The number of a job by its name; None: it is over, or never was."""
        j = self.last(name)
        return None if j is None or self.world.jobs.state.item(j) > JobState.RUNNING else j

    def last(self, name: str) -> int | None:
        """The number of the last job of a name, over or not; None: there never was one."""
        number = self.world.job_number
        life_name = telling.present(name, number)
        return None if life_name is None else number[life_name]

    def node_number(self, name: str) -> int | None:
        """The number of a node that is there."""
        world, n = self.world, self._nodes.get(name)
        if n is None or world.nodes.state.item(n) == NodeState.GONE:
            life_name = telling.present(name, world.node_number)
            if life_name is None:
                return None
            n = self._nodes[name] = world.node_number[life_name]
        return None if world.nodes.state.item(n) == NodeState.GONE else n

    def node_name(self, n: int) -> str:
        """What the cluster calls a node, or the machine that it is a part of."""
        world = self.world
        return machine(telling.origin(world.node_rows[n].name, world.node_number))

    def place_name(self, n: int) -> str:
        """The node, or the part of one, that a number is of."""
        world = self.world
        return telling.origin(world.node_rows[n].name, world.node_number)

    def next_name(self, name: str) -> str:
        """A name for a job that is not in the journal, or over there."""
        known = self.world.job_number
        return telling.next_life(name, known) if name in known else name


def _names(plain: str, kind: str) -> Iterator[str]:
    """What a job may be called: the first that no other is."""
    yield plain
    short, kind = plain[: LONGEST_NAME - 40], kind[:25]
    yield f"{short} ({kind})"
    yield from (f"{short} ({kind} {number})" for number in count(2))
