"""What jobs and nodes of a cluster are called in the journal, and which of their lives is now.

A job that is over, or a node that is gone, does not come back: what has its name later is its next
life (``live.history.telling``).
"""

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

    def name(self, key: UnitKey) -> str:
        """What a job is called: its namespace and name; where two have the same, with its kind."""
        if key not in self._name_of:
            name = key.shown[:LONGEST_NAME]
            if self._named.get(name, key) != key:
                name = f"{name[: LONGEST_NAME - 30]} ({key.kind[:25]})"
            self._name_of[key] = name
            self._named[name] = key
        return self._name_of[key]

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
