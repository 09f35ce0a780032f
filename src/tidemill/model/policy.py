"""The choices a fleet's owner makes: one frozen value, given to every cycle."""

from collections.abc import Collection
from typing import Annotated, Literal

from msgspec import Meta, Struct

from tidemill.model.measures import DAY_MS, HOUR_MS, MINUTE_MS
from tidemill.model.orders import ORDERS
from tidemill.model.placements import PLACEMENTS
from tidemill.model.rows import Contract, Natural, Ppm

Bound = Annotated[int, Meta(ge=0, le=100_000)]
Share = Annotated[int, Meta(ge=0, le=1_000_000_000)]


Rollouts = Annotated[int, Meta(ge=1, le=1_024)]


class Policy(Struct, frozen=True, forbid_unknown_fields=True):
    """How to order, place, make room, and look after nodes and idle work."""

    order: str = "priority"
    """``priority``: higher first, then oldest. ``fifo``: oldest first. ``shortest``: least run time
    left. ``smallest``: least run time left × accelerators. ``attained``: least accelerator time had
    so far, in steps. Teams below their guaranteed quota go before all of them.
    """
    fairness: Literal["none", "drf", "bill"] = "none"
    """Among teams that borrow: ``drf`` smallest dominant share first, ``bill`` smallest cost.

    Both by weight, from the top of the tree of queues down, and before priority, which then orders
    within a team only.
    """
    usage_half_life_ms: Natural = 0
    """Fair shares count past use too, half as much after this long; 0: only what is used now."""
    placement: str | tuple[str, ...] = "tide"
    """Where work goes: one name, or several of which the next breaks the ties of the one before.

    ``pack`` fills used nodes first and keeps whole ones whole; ``spread`` does the opposite.
    ``best-fit``, ``dot-product``, ``clustering``, ``sharing``, ``fgd`` and our own, ``tide``: see
    *placement* among the concepts.
    """
    placement_rollouts: Rollouts = 8
    """``tide``: how many futures are played out to value the state of a node."""
    placement_grain_milli: Annotated[int, Meta(ge=1, le=100_000)] = 120
    """``tide``: a difference smaller than this, in accelerator-milli, is a tie."""
    placement_host_price_ppm: Share = 300_000
    """``tide``: what the last free place for a large request costs, as a share of its size."""
    placement_fragment_ppm: Annotated[int, Meta(ge=0, le=100_000_000)] = 6_000_000
    """``tide``: how much the fragments of now weigh beside the waste to come, in millionths, where
    all work leaves again; where only some of it does, so much less."""
    patience_ms: Natural = 6 * HOUR_MS
    """Starvation guard: without backfill, after this wait no job that could use the same
    accelerators passes it. In orders by run time, and those of plug-ins, it also goes first then.
    """
    may_reorder: bool = False
    """Whether ``shortest``, ``smallest`` and ``attained`` go before running jobs too: these are
    stopped when the order, planned anew over the whole fleet, has no room for them. Backfill,
    preemption, moves and resizing are not used beside it."""
    attained_steps_ms: tuple[Natural, ...] = (HOUR_MS, 10 * HOUR_MS)
    """Where one step of ``attained`` ends and the next begins, in accelerator-milliseconds; within
    a step the oldest goes first."""
    backfill: Literal["none", "easy", "conservative"] = "easy"
    """Which jobs may pass a job that does not fit. ``none``: all, until it waited for ``patience``,
    then none. ``easy``: those that, by estimates, do not delay the first such job of each GPU type.
    ``conservative``: those that delay none of the first ``reservations_at_most``.
    """
    reservations_at_most: Bound = 8
    """How many waiting jobs have a reservation under ``conservative`` backfill."""
    hold_after_ms: Natural = DAY_MS
    """The starvation guard of backfill: this long after a job that does not fit was first passed by
    a later one, no job passes it any more, whatever estimates say."""
    estimates: Literal["given", "history"] = "given"
    """How long a job is taken to run. ``given``: as its owner says. ``history``: as its owner says,
    corrected by how right the team was before; without an estimate, as long as similar jobs."""
    estimate_ppm: Ppm = 800_000
    """The share of past jobs that must have run no longer than an estimate from history."""
    unknown_run_ms: Natural = DAY_MS
    """The assumed run time when neither the owner nor history gives one."""
    may_preempt: bool = True
    """Whether higher priority evicts lower within a team."""
    may_reclaim: bool = True
    """Whether a team below its guaranteed quota takes back what others borrowed."""
    victims_at_most: Bound = 64
    """How many jobs may be evicted for one; the bound of the search."""
    min_run_ms: Natural = 10 * MINUTE_MS
    """How long a job that came up is left alone before it may be stopped for another; twice as long
    after each time it was stopped, up to 16 times as long."""
    evictions_at_most: Bound = 4
    """How often a job may be preempted without saving any work in between; then only a guaranteed
    quota may take its accelerators back."""
    searches_per_cycle: Bound = 8
    """How many waiting jobs may look for victims in one cycle; jobs that were
    skipped are tried first in the next one."""
    victims: Literal["time", "dollars"] = "dollars"
    """``time``: least lost time per accelerator first. ``dollars``: the cheapest set found."""
    preempt_gain_ppm: Share = 1_000_000
    """What a preemption must win, as a share of the work it loses; 0: priority is enough. The price
    of a job grows each time it is stopped."""
    may_move: bool = False
    """Whether running jobs move to other nodes so that a waiting job fits."""
    moves_at_most: Bound = 4
    """How many jobs may move for one; the bound of the search."""
    moves_apart_ms: Natural = HOUR_MS
    """How long a job must have worked before it is moved, or moved again."""
    move_gain_ppm: Share = 1_000_000
    """What moves must win, as a share of the work they lose."""
    may_resize: bool = True
    """Whether elastic jobs shrink before any job is stopped, and grow into idle capacity."""
    grow_after_ms: Natural = 10 * MINUTE_MS
    """How long an elastic job must have worked before it grows, so that the pause pays off."""
    may_provision: bool = True
    """Whether nodes are launched, drained, repaired and given back; else somebody else does."""
    drain_ms: Natural = 4 * HOUR_MS
    """How long work may stay on a node that we drain."""
    release_ahead_ms: Natural = DAY_MS
    """How long before the end of a contract its nodes begin to drain; never in its first half."""
    scale_up_after_ms: Natural = 5 * MINUTE_MS
    """How long demand must be unmet before on-demand nodes are launched."""
    return_idle_after_ms: Natural = 30 * MINUTE_MS
    """How long an on-demand node must be empty before it is given back."""
    cull_idle_after_ms: Natural = 0
    """Interactive jobs idle for this long are cancelled; 0 leaves them alone."""

    def __post_init__(self) -> None:
        """Refuse an order or a placement that there is no row for."""
        names = (self.placement,) if isinstance(self.placement, str) else self.placement
        _refuse_unknown("order", (self.order,), ORDERS)
        _refuse_unknown("placement", names, PLACEMENTS)
        if len(names) > 1 and any(PLACEMENTS[name] is not None for name in names):
            raise ValueError("expected a plug-in's placement by itself, without others")


def _refuse_unknown(field: str, names: tuple[str, ...], known: Collection[str]) -> None:
    for name in names:
        if name not in known:
            raise ValueError(f"there is no {field} `{name}`; known are {', '.join(known)}")


def release_ms(policy: Policy, contract: Contract) -> int:
    """When the nodes of a contract begin to drain, and no more are launched."""
    half_ms = (contract.start_ms + contract.end_ms) // 2
    return max(contract.end_ms - policy.release_ahead_ms, half_ms)
