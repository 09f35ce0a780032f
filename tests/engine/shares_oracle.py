"""What ``engine.check.shares`` says of a plan, in plain Python: row by row, pair by pair."""

from collections import Counter
from collections.abc import Iterator

from msgspec.structs import replace

from tidemill.engine.check.order import end_ms, registers
from tidemill.model.columns import AT
from tidemill.model.events import AskedPlace, Plan
from tidemill.model.measures import FOREVER_MS
from tidemill.model.orders import BY_SHAPE
from tidemill.model.policy import Policy
from tidemill.model.world import PAST_BITS, World

CLEAR_MILLI = 8.0  # more than rounding makes of a few sums of whole thousandths
CLEAR_PART = 1e-6


class Shares:
    """What teams have of the fleet as a plan goes on."""

    def __init__(self, world: World, policy: Policy) -> None:
        self.world, self.policy = world, policy
        self._more = Counter[tuple[int, int]]()
        self._worth = self._worths()
        self._past: dict[int, list[float]] = {}

    def take(self, j: int, action: AskedPlace) -> None:
        """A job is placed: its team, and all above it, use more."""
        world, shape = self.world, self.world.shape_of(j)
        for a in self.path(j):
            for piece in action.pieces:
                milli = piece.replicas * shape.roles[piece.role].replica_milli
                self._more[a, int(world.nodes.kind[piece.node])] += milli

    def path(self, j: int) -> list[int]:
        """The queues above a job, from the top down."""
        world, found = self.world, [self.world.shape_of(j).team]
        while parent := world.queue_rows[world.queue_number[found[-1]]].parent:
            found.append(parent)
        return [world.queue_number[name] for name in reversed(found)]

    def has_less(self, j: int, other: int) -> bool:
        """Whether the team of a job surely has less than that of another, where they part."""
        for mine, theirs in zip(self.path(j), self.path(other), strict=False):
            if mine != theirs:
                return self._share(mine) * (1 + CLEAR_PART) + self._unclear < self._share(theirs)
        return False

    @property
    def _unclear(self) -> float:
        return CLEAR_MILLI * max(self._worth, default=0.0)

    def _share(self, a: int) -> float:
        parts = [
            (int(self.world.used[a, k]) + self._more[a, k] + past) * worth
            for k, (past, worth) in enumerate(zip(self._lately(a), self._worth, strict=True))
        ]
        whole = sum(parts) if self.policy.fairness == "bill" else max(parts, default=0.0)
        return whole / self.world.queue_rows[a].weight

    def _lately(self, a: int) -> list[float]:
        """The mean of what a queue used of each type, as of now."""
        if a not in self._past:
            world, half_life_ms = self.world, self.world.half_life_ms
            gone_ms = world.now_ms - int(world.past_ms[a])
            left = 0.5 ** (gone_ms / half_life_ms) if half_life_ms else 0.0
            self._past[a] = [
                int(used) + (int(past) / 2**PAST_BITS - int(used)) * left if half_life_ms else 0.0
                for used, past in zip(world.used[a], world.past[a], strict=True)
            ]
        return self._past[a]

    def _worths(self) -> list[float]:
        """By GPU type: what part of the fleet, or of its bill, a thousandth is."""
        world, kinds = self.world, len(self.world.kinds)
        there, paid = [0] * kinds, [0] * kinds
        for c in range(world.contract_count):
            k, milli = int(world.contracts.kind[c]), int(world.contracts.launched_milli[c])
            there[k] += milli
            paid[k] += milli * int(world.contracts.rate_usd_micro[c])
        if self.policy.fairness == "drf":
            return [1 / max(1, milli) for milli in there]
        if not sum(paid):
            return [1 / max(1, sum(there))] * kinds
        return [cost / max(1, milli) / sum(paid) for cost, milli in zip(paid, there, strict=True)]


def passed_over(world: World, policy: Policy, plan: Plan) -> Iterator[str]:
    """Who is placed before one that asks for the same and whose team has less, in words."""
    if not _is_plain(world, policy):
        return
    shares, reg = Shares(world, policy), registers(policy)
    placed = [action for action in plan.actions if isinstance(action, AskedPlace)]
    named = {action.job for action in placed}
    left = [next((j for j in world.waiting[s] if j not in named), -1) for s in sorted(world.queued)]
    for action in placed:
        j = action.job
        for other in left:
            if other < 0 or not _ask_alike(world, j, other) or not shares.has_less(other, j):
                continue
            may_pass = policy.backfill != "none"
            if not (may_pass and end_ms(world, reg, j) < end_ms(world, reg, other)):
                name, first = world.job_names[j], world.job_names[other]
                yield f"job `{name}` is placed before `{first}`, whose team has less"
                break
        shares.take(j, action)


def _is_plain(world: World, policy: Policy) -> bool:
    """Whether fair shares alone say whose turn it is, among jobs that ask for the same."""
    if policy.fairness == "none" or policy.order not in BY_SHAPE:
        return False
    if world.promised or world.matrices.at[AT.LEAVING] or world.sliced:
        return False
    return not (world.floor > 0).any() and not (world.limit < FOREVER_MS).any()


def _ask_alike(world: World, j: int, other: int) -> bool:
    """Whether two jobs of different teams ask for the same, and fit wherever the other does."""
    mine, theirs = world.shape_of(j), world.shape_of(other)
    if mine.team == theirs.team or len(mine.roles) > 1 or mine.roles[0].least:
        return False
    return replace(theirs, team=mine.team, priority=mine.priority) == mine
