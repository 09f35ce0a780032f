"""When pods of other schedulers waited for GPUs beside ours: a fact that is kept beside the events.

Our scheduler does not plan them, so no queue of its journal has them. What stood free meanwhile may
have had demand: nobody here knows whether it could have been used.
"""

from collections.abc import Mapping

import msgspec

from tidemill.journal import kept_facts

FACT = "others_waited"
REASON = "OtherScheduler"
"""Why such a job is not placed by ours."""
MOST = 1_000

Spans = list[tuple[int, int]]
"""From and to, from the zero of the journal, in order."""


def gone_on(spans: Spans, at_ms: int, until_ms: int, *, waits: bool) -> Spans:
    """The same with what was seen between two looks; the oldest are joined where they are many."""
    if not waits or until_ms <= at_ms:
        return spans
    if spans and spans[-1][1] >= at_ms:
        return [*spans[:-1], (spans[-1][0], until_ms)]
    found = [*spans, (at_ms, until_ms)]
    return found if len(found) <= MOST else [(found[0][0], found[1][1]), *found[2:]]


def within(spans: Spans, start_ms: int, end_ms: int) -> int:
    """For how long they waited between two moments."""
    return sum(max(0, min(to, end_ms) - max(since, start_ms)) for since, to in spans)


def facts(spans: Spans) -> dict[str, str]:
    """What is kept."""
    return {FACT: msgspec.json.encode(spans).decode()}


def of(kept: Mapping[str, str], where: str) -> Spans:
    """What a journal says of it."""
    return kept_facts.read(kept, FACT, Spans, where) or []
