"""What cannot be true of loops, in words for people who import them.

Reads contradictions that were found; each sort has one sentence, which names the first of its jobs.
"""

from collections.abc import Sequence

from tidemill.journal.contradictions import Contradiction, ContradictionSort

_WORDS = {
    ContradictionSort.ABOVE_PEAK: "not believed, so efficiency unknown",
    ContradictionSort.OVER_WHOLE: ("cannot both be true, so waits are booked and the MFU is cut"),
    ContradictionSort.FEWER_GPUS: (
        "loops that use fewer GPUs than their jobs hold, so FLOPs and MFU count over all held"
    ),
    ContradictionSort.MORE_GPUS: (
        "loops that use more GPUs than their jobs hold, so efficiency and tokens per GPU-hour"
        " unknown"
    ),
}
_NAMED = 3
"""Jobs that a sentence says all of; `doctor` lists the others."""


def said(found: Sequence[Contradiction]) -> list[str]:
    """A sentence for each sort of which there are some."""
    sentences = []
    for sort, words in _WORDS.items():
        some = [one for one in found if one.sort is sort]
        named = "; ".join(f"`{one.name}`: {one.says}" for one in some[:_NAMED])
        more = f"; and {len(some) - _NAMED:,} more" if len(some) > _NAMED else ""
        sentences += [f"{words}: {named}{more} (see doctor)"] if some else []
    return sentences


def names(jobs: Sequence[str], most: int = 5) -> str:
    """The first of some jobs, and whether there are more."""
    return ", ".join(f"`{job}`" for job in jobs[:most]) + (" …" if len(jobs) > most else "")
