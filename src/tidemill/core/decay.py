"""Decay by halves, in whole numbers: what an average becomes when time passes.

``toward`` is the exponentially weighted mean of a level that was constant for a while: it moves
towards the level, half of the way in one half-life. Two steps give what one long step gives, but
for the last bits; integers only, so that every machine finds the same. Past use is such a mean:
``settle`` brings it up to a moment before what a queue uses changes.
"""

from math import isqrt

from tidemill.compiled import shared
from tidemill.core.kernel import kernel
from tidemill.model.columns import AT, QUEUE, QUOTA
from tidemill.model.world import PAST_BITS

BITS = 62
ONE = 1 << BITS
HALF_BITS = BITS // 2
LOW = (1 << HALF_BITS) - 1


def _halves() -> tuple[int, ...]:
    """2^-1/2, 2^-1/4, 2^-1/8, … as parts of ``ONE``: each is the root of the one before."""
    found = [ONE >> 1]
    while len(found) <= 32:
        found.append(isqrt(found[-1] << BITS))
    return tuple(found[1:])


HALVES = _halves()
HALVINGS = len(HALVES)


@kernel
def times(part, other, rounds_up):
    """The product of two numbers of at most ``ONE``, as parts of ``ONE``; rounded down, or up (1).

    By halves of their digits: the product itself is larger than a number can be.
    """
    low = (part & LOW) * (other & LOW)
    middle = (part >> HALF_BITS) * (other & LOW) + (part & LOW) * (other >> HALF_BITS)
    middle += low >> HALF_BITS
    found = (part >> HALF_BITS) * (other >> HALF_BITS) + (middle >> HALF_BITS)
    is_whole = middle & LOW == 0 and low & LOW == 0
    return found if rounds_up == 0 or is_whole else found + 1


@kernel
@shared
def left_after(elapsed, half_life):
    """What is left of one after a while, as parts of ``ONE``."""
    halvings, rest, left = elapsed // half_life, elapsed % half_life, ONE
    if halvings >= BITS:
        return 0
    for i in range(HALVINGS):
        rest *= 2
        if rest >= half_life:
            rest -= half_life
            left = times(left, HALVES[i], 0)
    return left >> halvings


@kernel
def toward(mean, level, left):
    """The mean after a level was constant until so much is left of what was."""
    if mean >= level:
        return level + times(mean - level, left, 0)
    return level - times(level - mean, left, 1)


@kernel
def past(quotas, q, k, left):
    """The mean of what a queue used of a type above its floor, with ``PAST_BITS`` places."""
    above = max(0, quotas[q, k, QUOTA.USED] - quotas[q, k, QUOTA.FLOOR]) << PAST_BITS
    return toward(quotas[q, k, QUOTA.PAST], above, left)


@kernel
def settle_one(at, queues, quotas, q, now):
    """Bring the past use of a queue up to a moment."""
    half_life, elapsed = at[AT.HALF_LIFE_MS], now - queues[q, QUEUE.PAST_MS]
    if half_life == 0 or elapsed == 0:
        return
    left = left_after(elapsed, half_life)
    for k in range(quotas.shape[1]):
        quotas[q, k, QUOTA.PAST] = past(quotas, q, k, left)
    queues[q, QUEUE.PAST_MS] = now


@kernel
def settle(at, queues, quotas, q, now):
    """The same of a queue and of all above it: what they use is about to change."""
    while q >= 0 and at[AT.HALF_LIFE_MS] != 0:
        settle_one(at, queues, quotas, q, now)
        q = queues[q, QUEUE.PARENT]
