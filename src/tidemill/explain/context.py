"""A case: everything known about why one job waits, gathered once.

The cause, the role that it is about, where that role's accelerators are, how the free ones lie, and
who is ahead. Questions, facts and fixes are read off a case; none of them looks at the fleet again.
"""

from typing import NamedTuple

from msgspec.structs import replace

from tidemill.explain import certificates, phrasing, rerun, site, supply, told, trials
from tidemill.explain.answers import Alternative, Certificate, PricedFix
from tidemill.explain.nearest import Wish
from tidemill.explain.rerun import Glance, Line, Protected
from tidemill.explain.supply import WITHHELD, Blocks, Lot, Place, Supply
from tidemill.explain.told import WaitsFor
from tidemill.explain.trials import Trials
from tidemill.model.node_rules import EVERY_TAINT
from tidemill.model.policy import Policy
from tidemill.model.reasons import NEVER, Cause
from tidemill.model.rows import Piece, Role, Shape
from tidemill.model.world import World
from tidemill.scheduling import contract_capacity, elastic, eligibility, mixed_types
from tidemill.scheduling.eligibility import Option
from tidemill.scheduling.fit import Options, fit, undo
from tidemill.scheduling.preemption.select import Victim
from tidemill.scheduling.scores.scoring import Scoring
from tidemill.scheduling.snapshot import Snapshot

NO_SUPPLY = frozenset({Cause.NOTHING_LAUNCHED, Cause.NOTHING_READY, Cause.NOT_ENOUGH_READY})
"""Causes that lie with what contracts and nodes lack now."""
_LACKS_ROOM = frozenset(Cause) - NEVER - NO_SUPPLY - {Cause.NONE}
_SHOWN_ALWAYS = frozenset({
    Cause.NONE, Cause.NOT_ELIGIBLE, Cause.BUSY, Cause.PARTIAL_GANG, Cause.SCATTERED,
    Cause.CPU_BINDS, Cause.MEMORY_BINDS, Cause.HOST_BINDS,
})  # fmt: skip
"""Causes of which what jobs hold is evidence enough, whoever says them."""


class Case(NamedTuple):
    """One waiting job."""

    world: World
    """As the next cycle has it when it comes to this job: those that are ``due`` are placed."""
    policy: Policy
    memo: Glance
    j: int
    s: int
    shape: Shape
    cause: Cause
    """By the books."""
    waits: WaitsFor
    """For what it waits: for that, or for what its own scheduler says."""
    r: int
    role: Role
    """Of an elastic job at its smallest size: with that it starts."""
    options: tuple[Option, ...]
    supply: Supply
    blocks: Blocks
    hosted: int
    """Replicas of the role that would fit now, on the kind that holds most of them; of several
    roles, beside those that ``beside`` has."""
    line: Line
    victims: tuple[Victim, ...]
    """Whom the next cycle would evict for it."""
    protected: Protected | None
    """Whom the scheduler will evict for it, once they have run as long as the policy leaves them
    alone."""
    proof: Certificate | None
    trials: Trials
    before: World
    """As it is now."""
    due: tuple[int, ...]
    """Jobs ahead of it that the next cycle places."""
    offers: tuple[Alternative, ...] = ()
    """What the scheduler would place now instead."""
    beside: tuple[Role, ...] = ()
    """The other roles of a gang that fit now, and beside which ``hosted`` is counted."""
    spared: tuple[int, ...] = ()
    """Jobs that would be preempted for it if the cluster let them go."""
    is_only_told: bool = False
    """Whether its own scheduler says the cause, and nothing in the books shows it."""
    doubt: str = ""
    """Where it would fit: which reservations keep nodes for others, without which it would not."""

    def wish(self) -> Wish:
        """The job as something to find alternatives for."""
        row = trials.row(self.world, self.j, self.shape)
        return Wish(self.memo.room(self.world), row, self.r, self.j)

    @property
    def name(self) -> str:
        """The job's name."""
        return self.world.job_names[self.j]

    def units(self, milli: int) -> str:
        """So many of what it may run on: of the types that it names, those its labels leave."""
        left = {self.world.kinds[option.kind] for option in self.options if option.kind >= 0}
        kinds = tuple(kind for kind in self.role.kinds if kind in left)
        role = replace(self.role, kinds=kinds) if kinds else self.role
        return phrasing.units(milli, role)

    @property
    def unkept(self) -> str:
        """What keeps it out, perhaps, and nobody here can tell; "": nothing."""
        return ", ".join(one for one in (phrasing.unkept(self.shape), self.doubt) if one)

    @property
    def in_queue(self) -> str | None:
        """The name by which it can be asked about; None: it is not submitted."""
        return self.name if self.trials.is_submitted else None

    @property
    def missing(self) -> int:
        """Replicas for which there is no room now."""
        return max(0, self.role.count - self.hosted)

    @property
    def idle(self) -> list[int]:
        """Running jobs that do nothing and hold something of a kind that it may use."""
        world, kinds = self.world, self.memo.known(self.world, self.s).kinds
        return [
            j for j in sorted(world.idle)
            if any(int(world.nodes.kind[piece.node]) in kinds for piece in world.placements[j])
        ]  # fmt: skip

    @property
    def busy_milli(self) -> int:
        """What others hold now of what it may use; those that are due come on top."""
        found = supply.supply(self.before, self.role, self.options) if self.due else self.supply
        return found.milli(Place.BUSY)

    def if_allowed(self, fix: PricedFix) -> PricedFix:
        """A fix on other nodes; whether a job with rules that the books lack may be there (a port
        of the node, other pods) is unknown, and said.
        """
        if not self.unkept:
            return fix
        told = f"{fix.words}; whether it may be there, nobody here can tell: {self.unkept}"
        return replace(fix, words=told)

    def withheld(self) -> list[tuple[Place, Lot]]:
        """What it could use but takes no work: the largest lot first."""
        lots = [(place, self.supply.lots[place]) for place in WITHHELD if place in self.supply.lots]
        return sorted(lots, key=lambda item: -item[1].milli)

    def detail(self) -> str:
        """The one thing behind the cause; the cause itself where it has no parts."""
        if self.waits.is_block:
            return self.waits.says
        lots = self.withheld()
        if self.cause not in NO_SUPPLY or not lots:
            return self.cause.name.lower()
        lacking = self.role.total_milli - self.supply.ready_milli
        in_flight = self.supply.milli(Place.ASKED, Place.BOOTING)
        if in_flight and in_flight >= lacking:
            lots = [item for item in lots if item[0] in (Place.ASKED, Place.BOOTING)]
        elif any(place is not Place.MAY_LAUNCH for place, _ in lots):
            lots = [item for item in lots if item[0] is not Place.MAY_LAUNCH]
        return lots[0][0].name.lower()


def open_case(
    world: World, policy: Policy, memo: Glance, j: int, *, is_submitted: bool = True
) -> Case:
    """Gather what is known about a waiting job, or about one that might be submitted."""
    s = int(world.jobs.shape[j])
    looked = rerun.look(world, policy, memo, rerun.rivals(world, policy, s))
    cause = rerun.from_the_ground(world, memo, s, looked.causes[s])
    cause = rerun.for_pods(world, memo, s, cause)
    if j in looked.placed:
        cause = Cause.NONE
    known = rerun.as_told(world, j, cause)
    is_only_told, cause = known is not cause and known not in _SHOWN_ALWAYS, known
    before, line = world, rerun.line(world, policy, memo, j, looked.causes)
    due = rerun.due_before(world, policy, memo, j, looked) if cause in _LACKS_ROOM else []
    if due:
        world = trials.seated(world, [looked.placed[i] for i in due])
        memo = Glance(world, sweeps=memo.sweeps)
        rerun.look(world, policy, memo, rerun.rivals(world, policy, s))  # for its reservations
    victims = rerun.victims_for(world, policy, memo, s, cause)
    protected = None if victims else rerun.protected_from(world, policy, memo, s, cause)
    spared = () if victims or protected else rerun.spared_from(world, policy, s, cause)
    if victims:
        cause = Cause.PROMISED
    waits = told.waits_for(world, j, cause)
    shape = supply.of_types_there(world, world.shape_rows[s])
    r = _role(world, policy, memo, s, cause)
    role, options = elastic.smallest(shape).roles[r], memo.known(world, s).options[r]
    if cause in _LACKS_ROOM:
        role, options = _where_it_could_be(world, role, options)
        role = supply.of_type_there(world, role)
    loose = role
    if cause is Cause.IMPOSSIBLE_LABEL:  # show what there is of its kinds, whatever their labels
        loose = replace(role, labels=(), affinity=(), tolerates=(EVERY_TAINT,))
        options = eligibility.options(world, loose)
    every, scoring = memo.known(world, s).options, memo.scoring(world, policy)
    room = memo.room(world)
    beside = _beside(room, s, r, every, scoring) if cause in _LACKS_ROOM else None
    hosted = _hosted(room, int(world.shapes.queue[s]), role, options, beside)
    return Case(
        world, policy, memo, j, s, shape, cause, waits, r, role, options,
        supply.supply(world, loose, options),
        supply.blocks(world, role, options),
        hosted,
        line,
        tuple(victims),
        protected,
        certificates.certificate(world, shape, cause) if cause in NEVER else None,
        Trials(before, policy, sweeps=memo.sweeps, is_submitted=is_submitted),
        before, tuple(due), beside=() if beside is None else beside.shape.roles,
        spared=spared, is_only_told=is_only_told or waits.is_block,
        doubt=site.doubt(world, policy, j, memo.known(world, s).options)
        if cause is Cause.NONE else "",
    )  # fmt: skip


def _role(world: World, policy: Policy, memo: Glance, s: int, cause: Cause) -> int:
    """The role that the cause is about."""
    shape, q = world.shape_rows[s], int(world.shapes.queue[s])
    if cause in NEVER:
        return certificates.guilty_role(world, shape)
    room = memo.empty_room(world) if cause in NO_SUPPLY else memo.room(world)
    options = memo.known(world, s).options
    found = fit(room, q, elastic.smallest(shape), options, memo.scoring(world, policy))
    if found.shortage is None:
        undo(room, q, shape, found.pieces)
        return 0
    return found.shortage.role


def _where_it_could_be(
    world: World, role: Role, options: tuple[Option, ...]
) -> tuple[Role, tuple[Option, ...]]:
    """A role on the GPU types that could ever hold it: what lies elsewhere is none it could use."""
    flags = contract_capacity.holding(world, role, [option.kind for option in options])
    able = tuple(one for one, is_holding in zip(options, flags, strict=True) if is_holding)
    able = supply.large_enough(world, role, able)
    if len(able) < len(options):
        role = replace(role, kinds=tuple(world.kinds[option.kind] for option in able))
    return role, able


class _Seated(NamedTuple):
    """Some roles of a gang, and where they were placed in the room."""

    shape: Shape
    pieces: tuple[Piece, ...]


def _beside(room: Snapshot, s: int, r: int, options: Options, scoring: Scoring) -> _Seated | None:
    """Place all other roles of a gang in the room, or those before it; None: nothing changed."""
    shape, q = elastic.smallest(room.world.shape_rows[s]), int(room.world.shapes.queue[s])
    others = [i for i in range(len(shape.roles)) if i != r]
    for some in (others, others[:r]):
        part = replace(shape, roles=tuple(shape.roles[i] for i in some), parallelism=None)
        can_use = tuple(options[i] for i in some)
        found = fit(room, q, part, can_use, scoring) if some else None
        if found is not None and found.shortage is None:
            return _Seated(part, found.pieces)
    return None


def _hosted(
    room: Snapshot, q: int, role: Role, options: tuple[Option, ...], beside: _Seated | None
) -> int:
    """Replicas that fit beside what was seated, which is then taken out again."""
    most = mixed_types.hosts(room, role, options)
    if beside is not None:
        undo(room, q, *beside)
    return min(role.count, most)
