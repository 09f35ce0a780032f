"""Stretches of one process: up to where its loop began to work, and from there on.

Those whose time was told are kept in longer pieces, for those who compare ranks.
"""

from collections.abc import Iterable

from msgspec.structs import replace

from tidemill.live.track.records import StepsRecord

PIECE_US = 20_000_000
"""The length of a piece."""
_TIMES = ("data_us", "communication_us", "checkpoint_us", "compute_us")
_AMOUNTS = ("tokens", "samples", "mflop")
_OF_STEPS = (
    "first_step", "last_step", "last_end_us", "min_step_us", "median_step_us", "max_step_us",
)  # fmt: skip


def at_up(one: StepsRecord) -> list[StepsRecord]:
    """A stretch in which its loop began to work as two: what was before that, and the rest."""
    if one.up_us is None or one.up_us == one.from_us:
        return [one]
    before_us = one.up_us - one.from_us
    none = {name: None if getattr(one, name) is None else 0 for name in _TIMES}
    before = replace(
        one, until_us=one.up_us, other_us=before_us, up_us=None, steps=0, **none,
        **dict.fromkeys((*_OF_STEPS, *_AMOUNTS)),
    )  # fmt: skip
    return [before, replace(one, from_us=one.up_us, other_us=one.other_us - before_us)]


def joined(stretches: Iterable[StepsRecord]) -> list[StepsRecord]:
    """Stretches of one process in pieces of ``PIECE_US``.

    Which are joined follows from their times alone, not from when that is done.
    """
    found: list[StepsRecord] = []
    for one in sorted(stretches, key=lambda stretch: stretch.from_us):
        is_same = found and found[-1].until_us // PIECE_US == one.until_us // PIECE_US
        if is_same and not _goes_back(found[-1], one):
            found[-1] = _sum(found[-1], one)
        else:
            found.append(one)
    return found


def _goes_back(one: StepsRecord, after: StepsRecord) -> bool:
    """Whether a stretch does steps again that were done before it."""
    if after.first_step is None or one.last_step is None:
        return False
    return after.first_step <= one.last_step


def _sum(one: StepsRecord, after: StepsRecord) -> StepsRecord:
    """Two stretches as one; an amount that some of its steps do not tell is not known."""
    known = dict[str, int | None]()
    for name in (*_TIMES, *_AMOUNTS):
        some = [value for part in (one, after) if (value := getattr(part, name)) is not None]
        is_untold = name in _AMOUNTS and any(
            part.steps and getattr(part, name) is None for part in (one, after)
        )
        known[name] = None if is_untold or not some else sum(some)
    return replace(
        one, until_us=after.until_us, steps=one.steps + after.steps,
        other_us=one.other_us + after.other_us, **known,
        min_step_us=None, median_step_us=None, max_step_us=None,
        first_step=after.first_step if one.first_step is None else one.first_step,
        last_step=one.last_step if after.last_step is None else after.last_step,
    )  # fmt: skip
