"""What is true of jobs wherever they are placed, from what was seen of them where they were.

A job comes when it could first be placed. It has as much work as its attempts did, less what is
known to be lost with their stops, and crashes as it was seen to crash; what stopped it in between
(a preemption, a lost node) belongs to its place and is left out. So the same decisions have the
same ends. That is known of the GPU types that it was seen on, so it is placed on no others.
What its owner ended ends at the same moment of the clock. A job whose end nobody
saw works to the end of the story: that is an assumption, and is counted (``comparing``).

Who sat somewhere when the journal began, or is decided by somebody else, is *pinned*: it takes the
place that it was seen in, and what somebody else decides is never stopped for a job of ours. A gang
of which only a part sat somewhere then is placed anew, whole.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple

from msgspec.structs import replace

from tidemill.advise.shadow.holds import Hold
from tidemill.advise.shadow.story import End, SeenAttempt, SeenJob, Story
from tidemill.model.measures import FOREVER_MS
from tidemill.model.rows import Piece, Role, Shape
from tidemill.model.world import World
from tidemill.twin.arrivals import Arrival, Ending
from tidemill.workload import progress


class Pin(NamedTuple):
    """A place that a job takes as it was seen to."""

    pieces: tuple[Piece, ...]
    up_ms: int | None


class PlayedJob(NamedTuple):
    """One job of the story that is played."""

    arrival: Arrival
    seen: SeenJob
    pin: Pin | None = None
    cancel_ms: int | None = None
    """When its owner ends it, whatever it does."""
    is_ours: bool = True
    """Whether it is placed by the policy, at least after it was stopped."""


class Cast(NamedTuple):
    """All jobs that are played, by number, and those that are not."""

    jobs: list[PlayedJob]
    others: int
    """Jobs that somebody else decides for: pinned while they held something."""
    held: int
    """Never free to be placed."""
    interrupted: int
    """Stopped and tried again: what they lost with that is known only of those that save."""
    others_waited: int = 0
    """Of the jobs of others, those that waited: in the shadow they come when they are placed."""
    resized: int = 0
    """Jobs of ours that had several sizes while they worked: they are played with the last."""
    partly: int = 0
    """Jobs of ours of which others held some GPUs: they are played with the others."""

    @property
    def pinned(self) -> int:
        """Jobs that sat somewhere when the journal began."""
        return sum(one.pin is not None and one.is_ours for one in self.jobs)


def of_story(
    story: Story, others: Mapping[str, str], world: World, holds: Mapping[int, Hold] = {}
) -> Cast:
    """The jobs of a story; ``others``: by name, who decides for those that are not ours.

    ``world``: the cluster state at the end of the story. ``holds``: who was kept out until when by
    what a replay does not know; those who never became free of it are left out, and those of others
    did not wait for GPUs till then.
    """
    played, held, foreign, interrupted, waited = list[PlayedJob](), 0, 0, 0, 0
    resized = partly = 0
    for j, seen in enumerate(story.jobs):
        if seen.is_held or (seen.over_ms is not None and seen.over_ms <= seen.came_ms):
            held += 1
        elif seen.job.name in others:
            foreign += 1
            waited += _has_waited(seen, holds.get(j))
            played += _lives(seen)
        elif j in holds and holds[j].until_ms is None:
            continue
        else:
            interrupted += any(one.end is End.STOPPED for one in seen.attempts)
            resized += any(_is_resized(one) for one in seen.attempts)
            partly += is_partly_booked(seen)
            one = _ours(seen, story, _work_ms(seen, j, world))
            played.append(_later(one, holds[j]) if j in holds else one)
    played.sort(key=lambda one: one.arrival.at_ms)
    return Cast(played, foreign, held, interrupted, waited, resized, partly)


def _has_waited(seen: SeenJob, hold: Hold | None) -> bool:
    """Whether a job of others waited for GPUs, once nothing else kept it out."""
    free_ms = seen.came_ms if hold is None else hold.until_ms
    return free_ms is not None and not (seen.attempts and seen.attempts[0].placed_ms <= free_ms)


def _later(one: PlayedJob, hold: Hold) -> PlayedJob:
    """A job that comes when it is free of what kept it out."""
    assert hold.until_ms is not None, "it became free of that"
    assert one.pin is None, "who had a place from the beginning was not held"
    return one._replace(arrival=one.arrival._replace(at_ms=hold.until_ms))


def _is_resized(one: SeenAttempt) -> bool:
    """Whether an attempt had other numbers of replicas before, while it worked."""
    sizes = {
        sum(p.replicas for p in some) for some in (*(was for _, was in one.earlier), one.pieces)
    }
    return len(sizes) > 1


def _ours(seen: SeenJob, story: Story, work_ms: int) -> PlayedJob:
    crashes = [one.run_ms for one in seen.attempts if one.end is End.CRASHED and one.run_ms]
    ending = Ending.FAILED if seen.is_failed else Ending.FINISHED
    if seen.is_failed:
        crashes = crashes[:-1]
    arrival = Arrival(
        seen.came_ms, replace(seen.job, shape=_on_seen_kinds(seen, story.kinds)), work_ms, ending,
        tuple(crashes),
        forgiven=len(crashes) if seen.is_failed else None,
    )  # fmt: skip
    first = seen.attempts[0] if seen.attempts else None
    is_there = first is not None and first.sat_ms == 0 and is_whole(seen, first)
    cancel_ms = seen.over_ms if seen.is_cancelled else None
    pin = Pin(first.pieces, first.up_ms) if first is not None and is_there else None
    assert arrival.at_ms <= story.end_ms, "nobody comes after the end"
    return PlayedJob(arrival, seen, pin, cancel_ms)


def is_whole(seen: SeenJob, one: SeenAttempt) -> bool:
    """Whether as many replicas of a job were placed as it works with; others may share devices."""
    if one.up_ms is not None or one.is_over:
        return True
    held = Counter[int]()
    for piece in one.pieces:
        held[piece.role] += piece.replicas
    return all(held[r] >= role.fewest for r, role in enumerate(seen.job.shape.roles))


def _work_ms(seen: SeenJob, j: int, world: World) -> int:
    """How much work it has: what was saved of it before its last stop, and what it did since."""
    if seen.last_run_ms is None or seen.over_ms is None:
        return FOREVER_MS
    jobs = world.jobs
    ran_ms = max(0, seen.over_ms - jobs.origin_ms.item(j))
    last = progress.split(ran_ms, jobs.interval_ms.item(j), jobs.cost_ms.item(j))
    since_ms = last.saved_ms + last.unsaved_ms
    if seen.is_failed and not seen.tells_saves:
        since_ms = last.unsaved_ms  # what it had saved by then is counted as saved already
    since_ms = progress.work_ms(since_ms, seen.attempts[-1].slow_ppm)
    return max(1, jobs.saved_ms.item(j) + since_ms)


def begun_ms(played: PlayedJob) -> list[int]:
    """How much of its work a job had behind it when each of its attempts began.

    Before the last, what all have done but what that one did; before others no more than that, and
    no more than those before them took.
    """
    ran = [one.run_ms or 0 for one in played.seen.attempts]
    work_ms = played.arrival.work_ms
    most_ms = max(0, work_ms - ran[-1]) if work_ms < FOREVER_MS else sum(ran[:-1])
    return [min(most_ms, done_ms) for done_ms in accumulate(ran[:-1], initial=0)]


def startup_ms(seen: SeenJob, attempt: int) -> int:
    """How long an attempt takes to come up where all of it sits: as long as it was seen to.

    One that was not seen to come up, as the last that was; at least as long as it was waited for.
    """
    ups = [_up_ms(one) for one in seen.attempts]
    known = [up for up in ups if up is not None]
    usual = known[-1] if known else seen.job.startup_ms + seen.job.restart_ms * (attempt > 1)
    if attempt > len(ups):
        return usual
    up, one = ups[attempt - 1], seen.attempts[attempt - 1]
    if up is not None:
        return up
    is_whole = sum(piece.replicas for piece in one.pieces) >= seen.replicas
    waited_ms = one.end_ms - one.sat_ms if is_whole and one.end_ms is not None else 0
    return max(usual, waited_ms)


def _up_ms(one: SeenAttempt) -> int | None:
    return None if one.up_ms is None else max(0, one.up_ms - one.sat_ms)


def _on_seen_kinds(seen: SeenJob, kinds: Sequence[str]) -> Shape:
    """What it requests, of the GPU types that each of its roles was seen on."""
    found = dict[int, set[str]]()
    for attempt in seen.attempts:
        for piece in attempt.pieces:
            found.setdefault(piece.role, set()).add(kinds[piece.node])
    shape = seen.job.shape
    roles = [
        replace(role, kinds=tuple(sorted(found[r]))) if r in found else role
        for r, role in enumerate(shape.roles)
    ]
    if is_partly_booked(seen):
        roles = [_as_booked(seen.attempts[-1], r, role) for r, role in enumerate(roles)]
    return replace(shape, roles=tuple(roles))


def is_partly_booked(seen: SeenJob) -> bool:
    """Whether others held some of what a job was shown to hold, and the rest was its own."""
    return bool(seen.attempts and seen.attempts[-1].is_over and seen.attempts[-1].pieces)


def _as_booked(one: SeenAttempt, r: int, role: Role) -> Role:
    """A role with as many replicas as an attempt had: with all of them it would do more work."""
    count = sum(piece.replicas for piece in one.pieces if piece.role == r) or role.count
    return replace(role, count=min(count, role.count), least=min(role.least, count))


def _lives(seen: SeenJob) -> list[PlayedJob]:
    """A job that somebody else places: a life for each time that it held the same."""
    spans = [span for one in seen.attempts for span in _spans(one)]
    return [_life(seen, number, one) for number, one in enumerate(spans, start=1)]


def _spans(one: SeenAttempt) -> list[SeenAttempt]:
    """An attempt, cut where it came to hold more, less, or something else while it worked."""
    found, begins_ms, up_ms = list[SeenAttempt](), one.placed_ms, one.up_ms
    for until_ms, pieces in one.earlier:
        found.append(SeenAttempt(begins_ms, begins_ms, pieces, up_ms, until_ms, End.STOPPED))
        begins_ms = up_ms = until_ms
    return [*found, one._replace(placed_ms=begins_ms, up_ms=up_ms)]


def _as_held(seen: SeenJob, one: SeenAttempt) -> Shape:
    """What it requests, as something that no policy stops, moves or makes smaller or larger."""
    shape = replace(seen.job.shape, is_preemptible=False)
    if shape.elastic_role is None:
        return shape
    roles = tuple(
        replace(_as_booked(one, r, role), least=0) if role.least else role
        for r, role in enumerate(shape.roles)
    )
    return replace(shape, roles=roles, speedup=())


def _life(seen: SeenJob, number: int, one: SeenAttempt) -> PlayedJob:
    name = seen.job.name if number == 1 else f"{seen.job.name}#{number}"
    is_done, saves = one.end is End.DONE and one.run_ms is not None, seen.job.checkpointing
    work = progress.split(one.run_ms or FOREVER_MS, saves.interval_ms, saves.cost_ms)
    arrival = Arrival(
        one.placed_ms,
        replace(seen.job, name=name, shape=_as_held(seen, one), startup_ms=0, restart_ms=0),
        max(1, work.saved_ms + work.unsaved_ms) if is_done else FOREVER_MS,
    )  # fmt: skip
    cancel_ms = None if is_done else one.end_ms
    return PlayedJob(arrival, seen, Pin(one.pieces, one.up_ms), cancel_ms, False)
