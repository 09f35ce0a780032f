"""What is true of jobs wherever they are placed, from what was seen of them where they were.

A job comes when it could first be placed. It works as long as its last attempt did, and crashes as
it was seen to crash; what stopped it in between (a preemption, a lost node) belongs to its place
and is left out. That is known of the GPU types that it was seen on, so it is placed on no others.
What its owner ended ends at the same moment of the clock. A job whose end nobody
saw works to the end of the story: that is an assumption, and is counted (``comparing``).

Who sat somewhere when the journal began, or is decided by somebody else, is *pinned*: it takes the
place that it was seen in.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from tidemill.advise.shadow.story import End, SeenAttempt, SeenJob, Story
from tidemill.model.measures import FOREVER_MS, ONE_PPM
from tidemill.model.rows import Job, Piece, Shape
from tidemill.twin.arrivals import Arrival, Ending, Spell


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
    """Stopped and tried again: their run time is that of the last attempt."""

    @property
    def pinned(self) -> int:
        """Jobs that sat somewhere when the journal began."""
        return sum(one.pin is not None and one.is_ours for one in self.jobs)


def of_story(story: Story, others: Mapping[str, str]) -> Cast:
    """The jobs of a story; ``others``: by name, who decides for those that are not ours."""
    played, held, foreign, interrupted = list[PlayedJob](), 0, 0, 0
    for seen in story.jobs:
        if seen.is_held or (seen.over_ms is not None and seen.over_ms <= seen.came_ms):
            held += 1
        elif seen.job.name in others:
            foreign += 1
            played += _lives(seen)
        else:
            interrupted += any(one.end is End.STOPPED for one in seen.attempts)
            played.append(_ours(seen, story))
    played.sort(key=lambda one: one.arrival.at_ms)
    return Cast(played, foreign, held, interrupted)


def _ours(seen: SeenJob, story: Story) -> PlayedJob:
    crashes = [one.run_ms for one in seen.attempts if one.end is End.CRASHED and one.run_ms]
    ending = Ending.FAILED if seen.is_failed else Ending.FINISHED
    if seen.is_failed:
        crashes = crashes[:-1]
    known_ms = seen.known_ms
    arrival = Arrival(
        seen.came_ms, _job(seen, story.kinds), FOREVER_MS if known_ms is None else known_ms, ending,
        tuple(crashes), _activity(seen), len(crashes) if seen.is_failed else None,
    )  # fmt: skip
    first = seen.attempts[0] if seen.attempts else None
    is_there = first is not None and first.placed_ms == 0
    cancel_ms = seen.over_ms if seen.is_cancelled else None
    pin = Pin(first.pieces, first.up_ms) if first is not None and is_there else None
    assert arrival.at_ms <= story.end_ms, "nobody comes after the end"
    return PlayedJob(arrival, seen, pin, cancel_ms)


def _job(seen: SeenJob, kinds: Sequence[str]) -> Job:
    """The job as it is submitted: it takes as long to come up as it was last seen to."""
    ups = [one.up_ms - one.sat_ms for one in seen.attempts if one.up_ms is not None]
    return replace(
        seen.job, startup_ms=max(0, ups[-1]) if ups else seen.job.startup_ms, restart_ms=0,
        efficiency=seen.efficiency, shape=_on_seen_kinds(seen, kinds),
    )  # fmt: skip


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
    return replace(shape, roles=tuple(roles))


def _activity(seen: SeenJob) -> Spell | None:
    return None if seen.busy_ppm == ONE_PPM else Spell(FOREVER_MS, seen.busy_ppm)


def _lives(seen: SeenJob) -> list[PlayedJob]:
    """A job that somebody else places: a life for each time that it held something."""
    return [_life(seen, number, one) for number, one in enumerate(seen.attempts, start=1)]


def _life(seen: SeenJob, number: int, one: SeenAttempt) -> PlayedJob:
    name = seen.job.name if number == 1 else f"{seen.job.name}#{number}"
    is_done = one.end is End.DONE and one.run_ms is not None
    arrival = Arrival(
        one.placed_ms, replace(seen.job, name=name, startup_ms=0, restart_ms=0),
        one.run_ms if is_done and one.run_ms else FOREVER_MS, activity=_activity(seen),
    )  # fmt: skip
    cancel_ms = None if is_done else one.end_ms
    return PlayedJob(arrival, seen, Pin(one.pieces, one.up_ms), cancel_ms, is_ours=False)
