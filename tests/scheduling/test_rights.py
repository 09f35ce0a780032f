"""Searches for victims that are surely in vain: told by one compiled question."""

from tests.engine.stories import played, replayable, story
from tests.scheduling import rights_oracle
from tests.scheduling.rights_oracle import Verdict
from tidemill.engine.fold.one_event import fold
from tidemill.model.batch.sheet import Sheet
from tidemill.model.measures import FOREVER_MS
from tidemill.model.policy import Policy
from tidemill.model.world import World
from tidemill.scheduling.desk import layout, rights
from tidemill.scheduling.desk.columns import ASK, REG
from tidemill.scheduling.memo import Memo
from tidemill.scheduling.preemption import select
from tidemill.scheduling.preemption.search import Hunt
from tidemill.scheduling.schedule import Cycle

SEEDS = (9, 12, 15, 25, 31)
EVERY = 3  # events between two looks at a story


class Look:
    """A cluster state in the middle of a story, and the columns of a cycle that begins."""

    def __init__(self, world: World, policy: Policy) -> None:
        self.world, self.policy, self.memo = world, policy, Memo()
        self.memo.know_waiting(world)
        self.desk = Cycle(world, policy, self.memo, Sheet())
        self.desk.begin()
        for s in world.queued:
            self.memo.known(world, s)
            if self.memo.asks.rows[s, ASK.IS_SIMPLE]:
                known = self.memo.known(world, s)
                self.memo.asks.prepare(world, s, self.desk.room, self.desk.scoring, known)
        self.desk.columns = layout.with_pools(self.desk.columns, self.memo)

    def shapes(self) -> list[int]:
        """The waiting shapes of one role that need GPUs."""
        rows = self.desk.columns.asks
        return [
            s for s in sorted(self.world.queued) if rows[s, ASK.IS_SIMPLE] and rows[s, ASK.NEED]
        ]

    def compiled(self, s: int) -> Verdict:
        """What the kernel says."""
        columns = self.desk.columns
        if not rights.is_in_vain(self.world.matrices, columns, self.desk.room.ground, s):
            return Verdict(False)
        return Verdict(True, columns.reg.item(REG.AGAIN_MS), bool(columns.reg[REG.IS_FINAL]))

    def simple(self, s: int) -> Verdict:
        """What plain Python says."""
        options = self.memo.known(self.world, s).options[0]
        kinds = {option.kind: option.is_ok.nonzero()[0].tolist() for option in options}
        return rights_oracle.verdict(self.world, self.policy, s, kinds)

    def searched(self, s: int) -> select.Choice:
        """What the search itself finds."""
        hunt = Hunt(self.world, self.policy, self.memo, self.desk.room, s)
        return select.choose(hunt, self.desk.columns, self.desk.hunt)


def test_a_search_that_is_called_vain_is_in_vain():
    """As plain Python counts it; and the search itself then finds nobody, and says when to ask."""
    said = list[Verdict]()
    for seed in SEEDS:
        world, policy = World(), story(seed).policy
        with replayable(seed):
            for i, event in enumerate(played(seed).kept):
                fold(world, event)
                if i % EVERY == 0 and world.queued:
                    said += judged(Look(world, policy), f"event {i}")
    assert sum(not one.is_in_vain for one in said) > 20, "hardly anybody might find victims"
    assert sum(one.again_ms < FOREVER_MS for one in said) > 10, "hardly anybody is protected"
    assert any(not one.is_final for one in said), "everybody has come up"


def judged(look: Look, when: str) -> list[Verdict]:
    """What is said of those who wait; three ways to ask agree."""
    said = []
    for s in look.shapes():
        found = look.compiled(s)
        assert found == look.simple(s), f"{when}, shape {s}"
        if found.is_in_vain:
            nobody = select.Choice([], found.is_final, found.again_ms)
            assert look.searched(s) == nobody, f"{when}, shape {s}"
        said.append(found)
    return said
