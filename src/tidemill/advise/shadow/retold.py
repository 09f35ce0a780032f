"""What a job was measured to do, told again of its attempts in the shadow.

A training job does at the same point of its work what it did there: as its attempt of the same
number until the point from which the next one went on, then as that one, to the last. One that
crashes does what the same attempt did until its crash. What people and requests make a job do (a
service, a notebook) they do at the same time of the clock. What was measured is modelled of another
place; what was assumed stays assumed.
"""

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from tidemill.advise.shadow import truths
from tidemill.advise.shadow.story import End, News
from tidemill.advise.shadow.truths import PlayedJob
from tidemill.model import events as ev
from tidemill.model.measures import FOREVER_MS
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
    number = min(attempt, len(seen.attempts))
    began_ms = truths.begun_ms(played)
    for k, one in enumerate(seen.attempts[number - 1 :], start=number):
        from_ms = up_ms + began_ms[k - 1] - began_ms[number - 1]
        is_last = k == len(seen.attempts) or one.end is End.CRASHED
        until_ms = FOREVER_MS if is_last else up_ms + began_ms[k] - began_ms[number - 1]
        if one.up_ms is not None and from_ms < until_ms:
            mine = [news for news in seen.news if news.attempt == k]
            told = _shifted(mine, j, attempt, from_ms, from_ms - one.up_ms)
            yield from (news for news in told if news.at_ms < until_ms)
        if is_last:
            return


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
        covers_ms = max(0, one.covers_ms + by_ms) if one.covers_ms or not one.is_again else 0
        return replace(one, at_ms=at_ms, job=j, attempt=attempt, covers_ms=covers_ms)
    if isinstance(one, ev.EfficiencySeen | ev.StragglerSeen) and one.confidence not in _KEPT:
        return replace(one, at_ms=at_ms, job=j, attempt=attempt, confidence=Confidence.MODELLED)
    return replace(one, at_ms=at_ms, job=j, attempt=attempt)
