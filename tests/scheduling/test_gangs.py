"""Gangs of several roles and sizes, cuts and moves in columns: as Python says, at every step."""

import random
from collections.abc import Iterator
from functools import cache

import pytest

from tests.builders import contract, job, role, team
from tidemill.engine.fold.one_event import fold
from tidemill.engine.loop import Loop
from tidemill.model import events as ev
from tidemill.model.batch.sheet import Sheet
from tidemill.model.measures import FOREVER_MS
from tidemill.model.policy import Policy
from tidemill.model.rows import Job, Piece, Role
from tidemill.model.topology import Bond, Tier, Topology
from tidemill.model.world import World
from tidemill.scheduling import moves, resize
from tidemill.scheduling.desk import cycle, moving, rights, role_by_role, searching
from tidemill.scheduling.desk.columns import ASK, REG, SEATING, UNKNOWN
from tidemill.scheduling.diagnose import diagnose
from tidemill.scheduling.elastic import fit_largest
from tidemill.scheduling.fit import undo
from tidemill.scheduling.memo import Memo
from tidemill.scheduling.preemption.search import Hunt
from tidemill.scheduling.schedule import Cycle
from tidemill.scheduling.snapshot import ALL_BITS
from tidemill.twin.arrivals import Arrival
from tidemill.twin.backend import Twin

RACKS = Topology((Tier("rack", label="rack"),))
EVERY = 11  # events between two looks at a story
PLACEMENTS = ("pack", "spread", "tide")
SCATTERED = (100, 106)  # stories of jobs that are one replica each, so that all can be moved


def _roles(luck: random.Random) -> list[Role]:
    """A gang: some have a coordinator, or a second role with GPUs; some are elastic or tied."""
    count, gpus = luck.choice([1, 2, 3, 4]), luck.choice([1, 2, 4, 8])
    kinds = luck.choice([(), ("H100",), ("A100", "H100")])
    wishes = (Bond("rack", is_required=luck.random() < 0.3),) if luck.random() < 0.4 else ()
    least = luck.randint(1, count) if luck.random() < 0.4 else 0
    if least and wishes:
        wishes = (Bond("rack", is_required=False),)
    found = [role(count, gpus=gpus, kinds=kinds, least=least, bonds=wishes, cpu_milli=1)]
    if luck.random() < 0.5:
        found.append(role(1, name="head", gpus=0, cpu_milli=luck.choice([1, 20])))
    if luck.random() < 0.3:
        found.insert(0, role(luck.choice([1, 2]), name="eval", gpus=luck.choice([1, 2, 4])))
    return found


def _job(luck: random.Random, i: int, roles: list[Role]) -> Job:
    return job(
        f"j{i}", roles=roles, team=luck.choice("ab"), priority=luck.choice([0, 0, 5]),
        estimate_ms=luck.choice([500, 4000]), resize_ms=10, saves_every_ms=500, save_ms=1,
    )  # fmt: skip


@cache
def _story(seed: int) -> tuple[Policy, tuple[ev.Event, ...]]:
    """What happened on a crowded fleet with such gangs, where jobs may move and be resized."""
    luck = random.Random(f"gangs {seed}")
    asks = [_roles(luck) for _ in range(10)]
    if seed in SCATTERED:
        asks = [[role(1, gpus=1)], [role(1, gpus=2)], [role(1, gpus=8)]]
    arrivals = [
        Arrival(40 * i, _job(luck, i, luck.choice(asks)), luck.choice([300, 2000, 6000]))
        for i in range(60 if seed in SCATTERED else 120)
    ]
    policy = Policy(
        placement=PLACEMENTS[seed % 3], may_move=seed % 2 == 0, moves_apart_ms=200,
        move_gain_ppm=0, grow_after_ms=200, backfill=luck.choice(["easy", "conservative"]),
        unknown_run_ms=3000,
    )  # fmt: skip
    contracts = [
        contract("c", gpus=48, cpu_milli=24, memory_mib=60),
        contract("d", gpus=16, per_node=4, kind="A100", cpu_milli=24, memory_mib=10),
    ]
    twin = Twin(
        contracts, [team("a", limit=40), team("b")], arrivals, topology=RACKS,
        nodes_per={"c": {"rack": 2}, "d": {"rack": 2}}, seed=seed,
    )  # fmt: skip
    kept = list[ev.Event]()

    class Keeper:
        def append(self, events: list[ev.Event]) -> None:
            kept.extend(events)

    Loop(World(), policy, twin, Keeper(), [], 64).run()  # type: ignore[arg-type]
    return policy, tuple(kept)


class Look:
    """A cluster state in the middle of a story, and the columns of a cycle that begins."""

    def __init__(self, world: World, policy: Policy) -> None:
        self.world, self.memo = world, Memo()
        self.memo.know_waiting(world)
        self.desk = Cycle(world, policy, self.memo, Sheet())
        self.desk.begin()
        self.desk.know_all(range(len(world.shape_rows)))

    @property
    def waiting(self) -> list[int]:
        """The waiting shapes that kernels fit."""
        return [s for s in sorted(self.world.queued) if self.memo.asks.is_fitted(s)]

    def seated(self, s: int) -> tuple[tuple[Piece, ...], int]:
        """Where the kernel has a gang sit, which is left then, and why not."""
        w, d, g, t = self.world.matrices, self.desk.columns, self.desk.room.ground, self.desk.tables
        q = self.world.shapes.queue.item(s)
        d.reg[REG.SHORT] = UNKNOWN
        count = role_by_role.fit_largest(w, d, g, t, s, q)
        rows = d.seats[: max(0, count)].tolist()
        role_by_role.unseat(w, d, g, s, q, count)
        cause = cycle.why_not(w, d, g, s) if count == 0 else UNKNOWN
        return tuple(
            Piece(
                row[SEATING.ROLE],
                row[SEATING.NODE],
                row[SEATING.REPLICAS],
                row[SEATING.DEVICES] & ALL_BITS,
            )
            for row in rows
        ), cause  # fmt: skip

    def fitted(self, s: int) -> tuple[tuple[Piece, ...], int]:
        """The same in Python."""
        room, known = self.desk.room, self.memo.known(self.world, s)
        shape = self.world.shape_rows[s]
        found = fit_largest(room, known.queue, shape, known.options, self.desk.scoring)
        if found.shortage is not None:
            return (), int(diagnose(self.world, self.memo, room, s, found.shortage))
        undo(room, known.queue, shape, found.pieces)
        return found.pieces, UNKNOWN


def _looks(seed: int) -> Iterator[Look]:
    policy, events = _story(seed)
    world = World()
    for i, event in enumerate(events):
        fold(world, event)
        if i % EVERY == 0 and world.queued:
            yield Look(world, policy)


@pytest.mark.parametrize("seed", range(4))
def test_gangs_sit_where_python_has_them_sit(seed: int):
    """Role by role and as large as they fit; and where they do not, the cause is the same."""
    fits, causes = 0, set[int]()
    for look in _looks(seed):
        for s in look.waiting:
            if not look.desk.columns.asks[s, ASK.SIZES]:
                continue
            pieces, cause = look.seated(s)
            assert (pieces, cause) == look.fitted(s), look.world.shape_rows[s]
            fits += bool(pieces)
            causes.add(cause)
    assert fits > 10
    assert len(causes) > 2


def test_cuts_that_are_called_vain_are_in_vain():
    """Then no replicas that elastic jobs could give up let the shape sit; and it is often said."""
    said = [0, 0]
    for seed in range(4):
        for look in _looks(seed):
            w, d, g = look.world.matrices, look.desk.columns, look.desk.room.ground
            for s in look.waiting:
                d.reg[REG.CUTS] = 0
                is_vain = bool(rights.is_shrinking_in_vain(w, d, g, s))
                had, is_later = d.reg.item(REG.CUTS), bool(d.reg[REG.HAS_LATER_CUTS])
                d.reg[REG.CUTS] = 0
                hunt = Hunt(look.world, _story(seed)[0], look.memo, look.desk.room, s)
                cuts, is_final = resize.cuts(hunt, frozenset())
                assert bool(had) == bool(cuts)
                assert is_final == (not is_later)
                if is_vain:
                    assert not cuts or not resize.shrink(hunt, cuts)
                said[is_vain and bool(cuts)] += 1
    assert min(said) > 10, said


def test_a_search_for_moves_that_finds_nobody_is_pythons():
    """Where the kernel says that nobody can move, Python finds nobody, and asks again then."""
    said = [0, 0]
    for seed in SCATTERED:
        policy = _story(seed)[0]
        for look in _looks(seed):
            w, d, g, t = (
                look.world.matrices, look.desk.columns, look.desk.room.ground, look.desk.tables
            )  # fmt: skip
            for s in look.waiting:
                if searching.is_moving_in_vain(d, s):
                    continue
                found = moving.find_moves(w, d, g, t, look.desk.hunt, s)
                if found < 0:
                    continue
                plan = moves.plan(look.world, policy, look.memo, look.desk.room, s, frozenset())
                if found == 0:
                    is_final = not d.reg[REG.HAS_LATER_MOVES]
                    again_ms = min(FOREVER_MS, d.reg.item(REG.MOVE_AGAIN_MS))
                    assert plan == moves.Moves((), is_final=is_final, again_ms=again_ms)
                else:
                    assert plan.movers or plan.cost_usd_micro or plan.gain_usd_micro
                said[found > 0] += 1
    assert min(said) > 0, said
