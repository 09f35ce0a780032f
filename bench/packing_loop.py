"""The openb pods through the loop of the scheduler itself, with nothing between: no API server.

What a live scheduler decides, and no more: pods come in the same order, some at a time, those that
do not fit wait and are tried again, and nothing ends. What a cluster adds is the difference.
"""

from collections.abc import Sequence
from itertools import groupby

from bench import fgd, openb
from tidemill.engine.loop import Loop
from tidemill.journal import open_journal, policies
from tidemill.live.kubernetes.scheduling.running import live_policy
from tidemill.model import events as ev
from tidemill.model.measures import WHOLE_MILLI
from tidemill.model.policy import Policy
from tidemill.model.rows import Job, Role
from tidemill.model.world import World
from tidemill.twin.traces.openb import NodeLine, PodLine

APART_MS = 40
"""Between two looks, as live (``running.LEAST_APART_S``)."""


class _Arrivals:
    """Some pods at each beat."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.coming: list[tuple[int, Role]] = []
        self.placed = list[int]()

    def next_ms(self) -> int:
        return self.now_ms

    def take(self, world: World) -> Sequence[ev.Seen]:  # noqa: ARG002 - as the loop calls it
        some, self.coming = self.coming, []
        return [ev.JobSubmitted(self.now_ms, Job(f"p{j}", openb.shape_of(role)))
                for j, role in some]  # fmt: skip

    def carry_out(self, world: World, plan: ev.Plan) -> None:  # noqa: ARG002
        self.placed += [one.job for one in plan.actions if isinstance(one, ev.AskedPlace)]


def of_pods(
    lines: Sequence[NodeLine], pods: Sequence[PodLine], seed: int, *, at_once: int, policy: Policy
) -> list[float]:
    """Allocated percent at each mark; ``at_once``: so many pods at each look."""
    capacity = sum(line.gpus for line in lines) * WHOLE_MILLI
    world, source = openb.empty_world(lines, seed), _Arrivals()
    loop = Loop(world, live_policy(policy), source, None)
    coming, percent, asked = openb.arrivals(pods, capacity, seed), list[float](), 0
    for j, role in enumerate(coming):
        source.coming.append((j, role))
        asked += role.replica_milli
        is_mark = (
            len(percent) < len(fgd.MARKS) and 100 * asked >= fgd.MARKS[len(percent)] * capacity
        )
        if is_mark or len(source.coming) >= at_once:
            source.now_ms += APART_MS
            loop.beat(source.now_ms)
        if is_mark:
            percent.append(100 * sum(coming[k].replica_milli for k in source.placed) / capacity)
    return percent


class _Recorded:
    """What a journal says was seen, one moment after the other; what was decided is kept apart."""

    def __init__(self, journal: str) -> None:
        self.moments = list[tuple[int, list[ev.Seen], list[ev.AskedPlace]]]()
        with open_journal(journal) as opened:
            self.policy = policies.of(opened.facts(), journal)
            for at_ms, events in groupby(opened.read(), key=lambda event: event.at_ms):
                told = list(events)
                placed = [one for one in told if isinstance(one, ev.AskedPlace)]
                self.moments.append((at_ms, [x for x in told if isinstance(x, ev.Seen)], placed))
        self._at = 0

    def next_ms(self) -> int | None:
        return self.moments[self._at][0] if self._at < len(self.moments) else None

    def take(self, world: World) -> Sequence[ev.Seen]:  # noqa: ARG002 - as the loop calls it
        self._at += 1
        return self.moments[self._at - 1][1]

    def carry_out(self, world: World, plan: ev.Plan) -> None:
        pass


def decided_again(journal: str) -> tuple[int, int]:
    """What a live scheduler saw, through the loop again, look by look.

    How many placements its journal has, and how many of them are decided alike (the same job on
    the same devices of the same nodes, in the same look and order) before the first other one.
    """
    recorded, world = _Recorded(journal), World()
    loop, count, alike, is_alike = Loop(world, recorded.policy, recorded, None), 0, 0, True
    for at_ms, _, placed in recorded.moments:
        plan = loop.beat(at_ms)
        again = [one for one in (plan.actions if plan else ()) if isinstance(one, ev.AskedPlace)]
        count += len(placed)
        if is_alike:
            same = [x == y for x, y in zip(placed, again, strict=False)]
            alike += same.index(False) if False in same else len(same)
            is_alike = placed == again
    return count, alike
