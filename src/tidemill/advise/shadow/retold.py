"""What a job was measured to do, told again of its attempts in the shadow.

A training job does at the same age what it did, age counted from its coming up: its attempt of the
same number as far as that went, and then its last one, which went furthest. What people and
requests make a job do (a service, a notebook) they do at the same time of the clock. What was
measured is modelled of another place; what was assumed stays assumed.
"""

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from tidemill.advise.shadow.story import News, SeenAttempt, SeenJob
from tidemill.advise.shadow.truths import PlayedJob
from tidemill.model import events as ev
from tidemill.model.states import Confidence, JobClass

_KEPT = (Confidence.UNKNOWN, Confidence.ASSUMED, Confidence.MODELLED)


def of_attempt(played: PlayedJob, j: int, attempt: int, up_ms: int) -> Iterator[News]:
    """What an attempt that comes up now tells, in order; what it tells at once has that moment."""
    seen = played.seen
    if not seen.news:
        return
    if seen.job.shape.kind is not JobClass.TRAINING or not played.is_ours:
        yield from _shifted(seen.news, j, attempt, up_ms, 0)
        return
    last = len(seen.attempts)
    first = min(attempt, last)
    part = _of(seen, first)
    own, final = seen.attempts[first - 1], seen.attempts[-1]
    ran_ms = _ran_ms(own)
    if own.up_ms is not None:
        yield from _shifted(part, j, attempt, up_ms, up_ms - own.up_ms)
    if first == last or ran_ms is None or final.up_ms is None:
        return
    rest = _shifted(_of(seen, last), j, attempt, up_ms + ran_ms, up_ms - final.up_ms)
    yield from rest


def _of(seen: SeenJob, number: int) -> Sequence[News]:
    return [one for one in seen.news if one.attempt == number]


def _ran_ms(attempt: SeenAttempt) -> int | None:
    return 0 if attempt.up_ms is None else attempt.run_ms


def _shifted(
    news: Sequence[News], j: int, attempt: int, from_ms: int, by_ms: int
) -> Iterator[News]:
    """News so much later; of what held before a moment, the last of each kind, at that moment."""
    before, later = dict[type[News], News](), list[News]()
    for one in news:
        told = _told(one, j, attempt, by_ms)
        if told.at_ms <= from_ms:
            before[type(told)] = replace(told, at_ms=from_ms)
        else:
            later.append(told)
    yield from before.values()
    yield from later


def _told(one: News, j: int, attempt: int, by_ms: int) -> News:
    at_ms = one.at_ms + by_ms
    if isinstance(one, ev.CheckpointSeen):
        covers_ms = max(0, one.covers_ms + by_ms)
        return replace(one, at_ms=at_ms, job=j, attempt=attempt, covers_ms=covers_ms)
    if isinstance(one, ev.EfficiencySeen | ev.StragglerSeen) and one.confidence not in _KEPT:
        return replace(one, at_ms=at_ms, job=j, attempt=attempt, confidence=Confidence.MODELLED)
    return replace(one, at_ms=at_ms, job=j, attempt=attempt)
