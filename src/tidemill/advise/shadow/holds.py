"""Jobs that were kept out by something that a replay does not know, and until when.

A licence, a limit of a user, a gate, a dependency, a reservation: whatever GPUs are free, such a
job would not have started, and no policy of ours knows when it would have been let go. So it is
held as long as its own scheduler said so: it comes when it really became free of it, and what it
waited before is on neither side of the comparison (it claims no free GPU, and is in no wait).

A reason is known from the look on that saw it; what kept a job out before is taken to be the same.
A quota of GPUs that the replay keeps itself (the team has one, or the policy names the team) is no
such reason: the policy may well change when that is free.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from tidemill.advise.shadow.story import SeenJob, Story, Supply, ToldReason
from tidemill.explain.phrasing import LABELS
from tidemill.live.slurm import reasons as of_slurm
from tidemill.model import events as ev
from tidemill.model import reasons
from tidemill.model.measures import FOREVER_MS
from tidemill.model.reasons import Cause, Layer
from tidemill.model.rows import Queue

_OF_QUOTA = (Cause.OVER_LIMIT, Cause.OVER_LIMIT_ALWAYS)
_LONGEST = 60  # of a reason that has no word of its own


class Hold(NamedTuple):
    """One job, and until when it was kept out."""

    since_ms: int
    until_ms: int | None
    """When it became free of that; None: not by the end of the books, or of the job."""
    name: str
    """What kept it out last, in a word,"""
    words: str
    """and as it was told."""


def of_story(
    story: Story, supply: Sequence[Supply], named: Collection[str], others: Collection[str]
) -> dict[int, Hold]:
    """The jobs that are held, by number, before they first had a place.

    ``supply``: as it is played, with the quotas that hold there; ``named``: teams of the policy;
    ``others``: jobs that are taken as they were seen, by name.
    """
    limited, found = _limited(supply) | {*named}, dict[int, Hold]()
    for j, seen in enumerate(story.jobs):
        is_played = not seen.is_held and seen.job.name not in others
        hold = _hold(seen, is_limited=seen.job.shape.team in limited) if is_played else None
        if hold is not None:
            found[j] = hold
    return found


def of_others(story: Story, others: Collection[str]) -> dict[int, Hold]:
    """Those of jobs that are taken as they were seen: they wait for no GPU meanwhile either.

    Such are jobs whose pods nobody can make (a quota, a webhook): no scheduler has them.
    """
    found = dict[int, Hold]()
    for j, seen in enumerate(story.jobs):
        hold = _hold(seen, is_limited=False) if seen.job.name in others else None
        if hold is not None:
            found[j] = hold
    return found


def retold(events: Iterable[ev.Event], holds: Mapping[int, Hold]) -> Iterator[ev.Event]:
    """The same events; who is held waits for something else than GPUs until it is free of that."""
    submitted = -1
    freed = [(h.until_ms, j) for j, h in holds.items() if h.until_ms is not None]
    freed.sort(reverse=True)
    for event in events:
        while freed and freed[-1][0] <= event.at_ms:
            at_ms, free = freed.pop()
            yield ev.ReasonSeen(at_ms, free, Cause.NONE, Layer.SCHEDULING, "")
        submitted += isinstance(event, ev.JobSubmitted)
        j = submitted if isinstance(event, ev.JobSubmitted) else _who(event)
        hold = None if j is None else holds.get(j)
        is_held = hold is not None and (hold.until_ms is None or event.at_ms < hold.until_ms)
        if not (is_held and isinstance(event, ev.ReasonSeen)):
            yield event
        if hold is not None and is_held and isinstance(event, ev.JobSubmitted | ev.RequestChanged):
            assert j is not None, "somebody is held"
            yield ev.ReasonSeen(event.at_ms, j, Cause.NOT_ELIGIBLE, Layer.WORKLOAD, hold.words)


def _who(event: ev.Event) -> int | None:
    return event.job if isinstance(event, ev.ReasonSeen | ev.RequestChanged) else None


def _hold(seen: SeenJob, *, is_limited: bool) -> Hold | None:
    """Until when a job was kept out: the last of its reasons before its first place counts."""
    if seen.attempts and seen.attempts[0].placed_ms <= seen.came_ms:
        return None
    blocks = [i for i, one in enumerate(seen.reasons) if _is_block(one, is_limited)]
    if not blocks:
        return None
    last = seen.reasons[blocks[-1]]
    if blocks[-1] + 1 < len(seen.reasons):
        until_ms: int | None = seen.reasons[blocks[-1] + 1].at_ms
    else:
        until_ms = seen.attempts[0].placed_ms if seen.attempts else None
    if until_ms is not None and until_ms <= seen.came_ms:
        return None
    return Hold(seen.came_ms, until_ms, _name(last), last.words)


def _is_block(one: ToldReason, is_limited: bool) -> bool:
    """Whether a reason keeps a job out whatever GPUs are free, for a time that a replay lacks."""
    word = of_slurm.word_of(one.words)
    if one.cause in _OF_QUOTA:
        return not (is_limited and (word is None or word.is_gpu_quota))
    if one.cause is Cause.NOT_ELIGIBLE:
        return True
    if word is None:
        is_said = bool(one.words) and not reasons.is_by_facts(one.words)
        return one.cause is Cause.NONE and is_said
    is_reserved = one.cause is Cause.NONE and bool(word.cause)  # its rules say more than its word
    return word.is_block or is_reserved


def _name(one: ToldReason) -> str:
    """A reason in a word: that of Slurm, the label of a cause, or what was said."""
    if (word := of_slurm.word_of(one.words)) is not None:
        return word.reason
    return LABELS[one.cause] if one.cause is not Cause.NONE else one.words[:_LONGEST]


def _limited(supply: Sequence[Supply]) -> set[str]:
    """Teams for which the replay itself keeps a maximum quota, their own or one above them."""
    rows = {event.queue.name: event.queue for event in supply if isinstance(event, ev.QueueSet)}
    return {name for name in rows if any(_has_limit(row) for row in _path(name, rows))}


def _path(name: str, rows: Mapping[str, Queue]) -> Iterator[Queue]:
    passed = set[str]()
    while name in rows and name not in passed:
        passed.add(name)
        yield rows[name]
        name = rows[name].parent


def _has_limit(row: Queue) -> bool:
    return any(min(share.limit_milli, share.borrow_milli) < FOREVER_MS for share in row.shares)
