"""What was done beside what another policy would have done: waits, and dollars.

Arrivals, nodes and run times are as seen; the second side's places are modelled. What it cannot
know is counted beside it: time in which the shadow's jobs work although nobody has seen how long
they do, and devices that others were seen on while the shadow's jobs held them.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from tidemill.advise.shadow.holds import Hold
from tidemill.advise.shadow.story import SeenAttempt, SeenJob, Story
from tidemill.advise.shadow.truths import Cast, PlayedJob
from tidemill.explain.supply import asked_milli
from tidemill.ledger.account import DENOMINATOR, Account, rounded
from tidemill.ledger.buckets import ALLOCATED, Bucket
from tidemill.ledger.difference import difference_document
from tidemill.ledger.statement import Statement
from tidemill.model.measures import MILLI_MS_PER_UNIT_HOUR, count_text
from tidemill.model.whys import Why
from tidemill.model.world import World

STRANDED = (
    Bucket.FRAGMENTED, Bucket.TOPOLOGY, Bucket.QUOTA, Bucket.HELD, Bucket.CAUSE_UNKNOWN,
    Bucket.STARTING,
)  # fmt: skip
"""Free while somebody waited for it, or held by who had not started: a gang of which only a part
is placed holds what nobody works on."""
CLOSED = (Bucket.CORDONED, Bucket.DRAINING)
"""Closed by somebody, and nobody worked there: where the shadow's jobs sat there by then, what is
free instead is another node."""
WORKED = tuple(set(ALLOCATED) - {Bucket.STARTING, Bucket.RESTART, Bucket.REWORK})
"""Held by jobs that worked, and what they did was not lost as far as that is known."""
MOST_NAMED = 8
SAME_MS = 1_000
"""Times of Kubernetes are whole seconds: a smaller difference is none."""


class JobStart(NamedTuple):
    """When one job could work, on both sides; None: not by the end."""

    name: str
    team: str
    milli: int
    came_ms: int
    seen_ms: int | None
    shadow_ms: int | None
    end_ms: int
    """Up to when it would wait: to the end of the books, or until its owner ended it."""
    cause: str = ""
    """Why it waited, as its own scheduler said last; "": it said nothing."""
    is_cancelled: bool = False
    """Whether its owner ended it, at that moment."""

    @property
    def change_ms(self) -> int:
        """By how much the shadow starts it later (above 0) or earlier, as far as was watched."""
        seen, shadow = (
            self.end_ms if at is None else at for at in (self.seen_ms, self.shadow_ms)
        )  # fmt: skip
        return shadow - seen


class UnknownTime(NamedTuple):
    """Time that jobs work in the shadow beyond what anybody has seen of them."""

    jobs: int
    milli_ms: int
    usd_micro: int | None
    """None: somebody's price is not known."""


class UndoneWork(NamedTuple):
    """Work that was done, and would not have been by the end of the books."""

    jobs: int
    milli_ms: int


class StoppedJobs(NamedTuple):
    """Jobs that the policy would have stopped, to wait again."""

    jobs: int = 0
    whys: tuple[tuple[str, int], ...] = ()
    """How often for what, the most often first: one job may be stopped more than once."""

    @property
    def words(self) -> str:
        """That in words; "": nobody is stopped."""
        if not self.jobs:
            return ""
        whys = ", ".join(f"{Why(why).words}: {count:,}" for why, count in self.whys)
        return (
            f"{count_text(self.jobs, 'job')} would have been stopped on the way ({whys}), and would"
            " have waited again"
        )


class HeldBack(NamedTuple):
    """Jobs that one reason kept out which a replay does not know (``holds``)."""

    reason: str
    jobs: int
    milli_ms: int
    """The GPUs that they requested, for as long as they were held."""

    @property
    def words(self) -> str:
        """That in words."""
        hours = self.milli_ms / MILLI_MS_PER_UNIT_HOUR
        return f"{self.reason} ({count_text(self.jobs, 'job')}, {hours:,.1f} GPU-hours)"


class ShadowReport(NamedTuple):
    """The comparison of two sides of one history."""

    starts: list[JobStart]
    """Of jobs that the policy placed, in the order of their coming."""
    unknown: UnknownTime
    undone: UndoneWork
    over_milli: int
    pinned: int
    others: int
    held: int
    interrupted: int
    others_waited: int
    """Jobs of others that waited: which is on the first side alone."""
    resized: int = 0
    """Jobs that had several sizes while they worked."""
    partly: int = 0
    """Jobs of which others held some GPUs."""
    unmet: tuple[str, ...] = ()
    """What the policy says of teams and GPU types that the history does not have."""
    beside_milli_ms: int = 0
    """What jobs of others worked where the shadow's jobs sat: it is in no bucket."""
    stopped: StoppedJobs = StoppedJobs()
    held_back: tuple[HeldBack, ...] = ()
    """Why jobs were kept out until they came, the most GPU-time first."""

    @property
    def is_of_nobody(self) -> bool:
        """Whether no job is one that the policy would have decided for."""
        return not self.starts and not self.pinned

    @property
    def earlier(self) -> list[JobStart]:
        """Those that would have started earlier, the most GPU-time first."""
        return _largest(one for one in self.starts if one.change_ms < -SAME_MS)

    @property
    def later(self) -> list[JobStart]:
        """Those that would have started later, likewise."""
        return _largest(one for one in self.starts if one.change_ms > SAME_MS)

    def notes(self) -> list[str]:
        """What a reader has to know of it, in words."""
        said = {
            "with a place when the journal began, which is kept": self.pinned,
            "decided by others, or with constraints that are not kept here: as was seen":
                self.others,
            "never free to be placed: left out": self.held,
            "stopped and tried again: where nobody said what was saved, taken to have lost nothing"
            " with that": self.interrupted,
            "of another size at last than before, while at work: played with the last":
                self.resized,
            "shown on GPUs that others held as well: played with those that it had alone":
                self.partly,
        }  # fmt: skip
        found = [*self.unmet]
        found += [f"{count_text(count, 'job')} {text}" for text, count in said.items() if count]
        if self.held_back:
            jobs = sum(one.jobs for one in self.held_back)
            more = len(self.held_back) - MOST_NAMED
            named = [one.words for one in self.held_back[:MOST_NAMED]]
            named += [f"{count_text(more, 'other reason')}"] if more > 0 else []
            found.append(
                f"{count_text(jobs, 'job')} waited for what no replay knows, and are held as long"
                f" as their scheduler said so: {', '.join(named)}; until then they are in no wait"
                " and no free GPU is theirs, on both sides"
            )
        if self.unknown.jobs:
            hours = self.unknown.milli_ms / MILLI_MS_PER_UNIT_HOUR
            found.append(
                f"{hours:,.2f} GPU-hours of {count_text(self.unknown.jobs, 'job')} in the shadow"
                " are beyond what was seen: how long they would have worked is not known"
            )
        if self.over_milli:
            found.append(
                f"{self.over_milli / 1000:,.1f} GPUs of others came to where the shadow's jobs sat:"
                f" their {self.beside_milli_ms / MILLI_MS_PER_UNIT_HOUR:,.3f} GPU-hours are"
                " counted beside them, in no bucket, so that much of it could not have been"
            )
        return found


def compare(seen: Story, cast: Cast, shadow: Story, world: World, over_milli: int) -> ShadowReport:
    """Both sides; ``world``: the cluster state at the end of the shadow's."""
    placed = {one.job.name: one for one in shadow.jobs}
    starts = [
        _start(one, placed.get(one.arrival.job.name), seen.end_ms, world)
        for one in cast.jobs
        if one.is_ours and one.pin is None
    ]
    unknown = _unknown(cast.jobs, placed, world, seen.end_ms)
    undone = _undone(cast.jobs, placed, world, seen.end_ms)
    return ShadowReport(
        starts, unknown, undone, over_milli, cast.pinned, cast.others, cast.held, cast.interrupted,
        cast.others_waited, cast.resized, partly=cast.partly,
        beside_milli_ms=_beside_milli_ms(shadow, world, seen.end_ms), stopped=_stopped(shadow),
    )  # fmt: skip


def held_back(seen: Story, holds: Mapping[int, Hold], world: World) -> tuple[HeldBack, ...]:
    """Who was held, and for how many GPU-hours, by reason."""
    jobs, milli_ms = Counter[str](), Counter[str]()
    for j, hold in holds.items():
        one = seen.jobs[j]
        over_ms = seen.end_ms if one.over_ms is None else one.over_ms
        until_ms = over_ms if hold.until_ms is None else hold.until_ms
        jobs[hold.name] += 1
        milli_ms[hold.name] += asked_milli(world, one.job.shape) * (until_ms - hold.since_ms)
    rows = [HeldBack(name, jobs[name], milli_ms[name]) for name in jobs]
    return tuple(sorted(rows, key=lambda row: (-row.milli_ms, row.reason)))


def _stopped(shadow: Story) -> StoppedJobs:
    whys = [[str(at.stopped) for at in one.attempts if at.stopped] for one in shadow.jobs]
    counts = Counter(why for some in whys for why in some)
    most_first = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return StoppedJobs(sum(map(bool, whys)), tuple(most_first))


def _beside_milli_ms(shadow: Story, world: World, end_ms: int) -> int:
    """What jobs worked on devices that others held as well."""
    found = 0
    for one in shadow.jobs:
        shape = one.job.shape
        for attempt in one.attempts:
            milli = attempt.over_milli * asked_milli(world, shape) // max(1, shape.total_milli)
            found += milli * _ran_ms(attempt, end_ms)
    return found


def stranded_usd_micro(account: Account) -> int | None:
    """Dollars of what nobody worked on although somebody wanted to; None: some has no price."""
    return _usd_micro(account, STRANDED)


def closed_usd_micro(account: Account) -> int | None:
    """Dollars of nodes that were closed, and on which nobody worked; None: some has no price."""
    return _usd_micro(account, CLOSED)


class WorkedTime(NamedTuple):
    """What jobs worked on both sides, in milli·ms."""

    before: int
    after: int
    """Without what they work beyond what anybody has seen,"""
    after_at_most: int
    """and with it: how long these jobs would have worked, nobody knows."""


def worked_milli_ms(sides: tuple[Statement, Statement], report: ShadowReport) -> WorkedTime:
    """What jobs worked on both sides, also where others were counted beside them."""
    before, booked = (side.total().of(WORKED) for side in sides)
    after = booked + report.beside_milli_ms
    return WorkedTime(before, max(0, after - report.unknown.milli_ms), after)


def _usd_micro(account: Account, buckets: Iterable[int]) -> int | None:
    some = [*buckets]
    if any(account.unpriced[bucket] for bucket in some):
        return None
    return rounded(sum(account.money[bucket] for bucket in some), DENOMINATOR)


def document(
    sides: tuple[Statement, Statement], names: tuple[str, str], report: ShadowReport
) -> dict[str, Any]:
    """All of it as one JSON-able value."""
    lost, closed = (
        [found(side.total()) for side in sides] for found in (stranded_usd_micro, closed_usd_micro)
    )
    worked = worked_milli_ms(sides, report)
    return difference_document(*sides, names) | {
        "confidence": {"before": "as recorded", "after": "modelled"},
        "stranded_usd_micro": {"before": lost[0], "after": lost[1]},
        "closed_usd_micro": {"before": closed[0], "after": closed[1]},
        "worked_milli_ms": worked._asdict(),
        "beside_milli_ms": report.beside_milli_ms,
        "undone": report.undone._asdict(),
        "stopped": {"jobs": report.stopped.jobs, "times": dict(report.stopped.whys)},
        "earlier": len(report.earlier),
        "later": len(report.later),
        "jobs": [one._asdict() | {"change_ms": one.change_ms} for one in report.starts],
        "unknown": report.unknown._asdict(),
        "over_milli": report.over_milli,
        "held_back": [one._asdict() for one in report.held_back],
        "notes": report.notes(),
    }


def _largest(found: Iterable[JobStart]) -> list[JobStart]:
    return sorted(found, key=lambda one: (-abs(one.change_ms) * one.milli, one.name))


def _start(one: PlayedJob, shadow: SeenJob | None, end_ms: int, world: World) -> JobStart:
    job = one.arrival.job
    first = shadow.attempts[0].placed_ms if shadow is not None and shadow.attempts else None
    return JobStart(
        job.name, job.shape.team, asked_milli(world, job.shape), one.arrival.at_ms,
        one.seen.whole_ms, first, end_ms if one.cancel_ms is None else one.cancel_ms,
        one.seen.cause.name.lower() if one.seen.cause else "", one.cancel_ms is not None,
    )  # fmt: skip


def _undone(
    played: Iterable[PlayedJob], placed: Mapping[str, SeenJob], world: World, end_ms: int
) -> UndoneWork:
    """Of jobs that were seen to end by themselves, and are not over in the shadow."""
    jobs, milli_ms = 0, 0
    for one in played:
        shadow = placed.get(one.arrival.job.name)
        if one.seen.last_run_ms is None or shadow is None or shadow.over_ms is not None:
            continue
        ran_ms = sum(_ran_ms(attempt, end_ms) for attempt in shadow.attempts)
        jobs += 1
        milli = asked_milli(world, shadow.job.shape)
        milli_ms += max(0, one.arrival.work_ms - ran_ms) * milli
    return UndoneWork(jobs, milli_ms)


def _unknown(
    played: Iterable[PlayedJob], placed: Mapping[str, SeenJob], world: World, end_ms: int
) -> UnknownTime:
    """Of jobs whose end nobody saw: what they work longer in the shadow than they were seen to."""
    jobs, milli_ms, money = 0, 0, 0
    is_priced = True
    for one in played:
        shadow = placed.get(one.arrival.job.name)
        if shadow is None or one.seen.last_run_ms is not None:
            continue
        seen_ms = sum(_ran_ms(attempt, end_ms) for attempt in one.seen.attempts)
        ran_ms = sum(_ran_ms(attempt, end_ms) for attempt in shadow.attempts)
        more_ms = ran_ms - seen_ms
        if more_ms <= SAME_MS or not shadow.attempts:
            continue
        rate, is_known = _rate(shadow.attempts[-1], shadow, world)
        jobs += 1
        milli_ms += more_ms * asked_milli(world, shadow.job.shape)
        money, is_priced = money + more_ms * rate, is_priced and is_known
    usd_micro = rounded(money, DENOMINATOR) if is_priced else None
    return UnknownTime(jobs, milli_ms, usd_micro)


def _ran_ms(attempt: SeenAttempt, end_ms: int) -> int:
    if attempt.up_ms is None:
        return 0
    return (end_ms if attempt.end_ms is None else attempt.end_ms) - attempt.up_ms


def _rate(attempt: SeenAttempt, job: SeenJob, world: World) -> tuple[int, bool]:
    """Milli times micro-dollars per hour of where it sits, and whether all of it has a price."""
    rate, is_known = 0, True
    for piece in attempt.pieces:
        c = world.contract_number[world.node_rows[piece.node].contract]
        row = world.contract_rows[c].at(attempt.placed_ms)
        milli = piece.replicas * job.job.shape.roles[piece.role].replica_milli
        rate += milli * row.rate_usd_micro
        is_known = is_known and row.is_priced
    return rate, is_known
