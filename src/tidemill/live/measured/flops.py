"""FLOPs of steps over the time in which they were done, and whether a GPU can have done them.

A loop says what a step did when it ends, and a step may take minutes: its FLOPs belong to the time
that the loop computed since the step before it ended, not to the second in which it was told.

More than the peak of the GPU nobody does. What is beyond it is wrong in all that the loop says:
FLOPs of all ranks told by each of them, another GPU type, another arithmetic. Then nobody knows how
efficient the attempt was.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tidemill.journal.contradictions import Contradiction, ContradictionSort
from tidemill.live.measured import against
from tidemill.live.track.records import StepsRecord
from tidemill.model.measures import ONE_PPM
from tidemill.units import capability

BELIEVED_PPM = 1_100_000
"""Up to here, of the peak, a figure is read as the peak: sheets round, and count with a clock below
the highest. An H100 SXM has 132 SMs of 4,096 dense BF16 operations per cycle: its 989 TFLOP/s are
those at 1,830 MHz, and it clocks up to 1,980, 8 % more."""
JUDGED_MS = 60_000
"""Figures are judged by the minute: in a second, one step more or less may end."""


class DoneWork(NamedTuple):
    """Edges of time of one process, and what was done up to each."""

    at_us: NDArray[np.int64]
    mflop: NDArray[np.float64]
    untold_us: NDArray[np.float64]
    """Up to each edge: how long nobody says what was done."""


class _Piece(NamedTuple):
    from_us: int
    until_us: int
    compute_us: float


def spread(stretches: Sequence[StepsRecord], unended_us: int) -> DoneWork:
    """The work of stretches in order; ``unended_us``: computed before them since the last step.

    A step that never ended told nothing; ranks and steps that tell no FLOPs did not do none. What a
    loop does after its last step without computing is no step.
    """
    edges, mflop, untold = [stretches[0].from_us], [0.0], [0.0]
    waiting, ahead_us, open_us = list[_Piece](), float(unended_us), unended_us

    def told(amount: float | None) -> None:
        whole = ahead_us + sum(piece.compute_us for piece in waiting)
        length = sum(piece.until_us - piece.from_us for piece in waiting)
        for piece in waiting:
            lasted = piece.until_us - piece.from_us
            share = piece.compute_us / whole if whole else lasted / max(1, length)
            edges.extend((piece.from_us, piece.until_us))
            mflop.extend((mflop[-1], mflop[-1] + share * (amount or 0)))
            untold.extend((untold[-1], untold[-1] + (lasted if amount is None else 0)))

    for one in stretches:
        before, after = _divided(one)
        if one.steps:
            waiting.append(before)
            told(one.mflop)
            waiting, ahead_us, open_us = [after], 0.0, _least_after_us(one, after)
        else:
            waiting.append(after)
            open_us += one.compute_us or 0
    told(None if open_us else 0)
    return DoneWork(np.array(edges, np.int64), np.array(mflop), np.array(untold))


def unended_us(stretches: Iterable[StepsRecord], before_us: int) -> int:
    """How long a loop computed since the last step that ended in these stretches."""
    for one in stretches:
        computed = round(_divided(one)[1].compute_us)
        before_us = computed if one.steps else before_us + computed
    return before_us


def _divided(one: StepsRecord) -> tuple[_Piece, _Piece]:
    """A stretch up to where its last step ended, and from there on.

    A loop saves after a step: it computes after its last one only what the rest leaves no room for.
    """
    end_us = (one.last_end_us or one.until_us) if one.steps else one.from_us
    end_us = min(max(end_us, one.from_us), one.until_us)
    length, compute, rest_us = (
        one.until_us - one.from_us,
        one.compute_us or 0,
        one.until_us - end_us,
    )
    rest = _Piece(end_us, one.until_us, compute * rest_us / max(1, length))
    if one.steps and one.checkpoint_us:
        rest = rest._replace(compute_us=min(rest.compute_us, _least_after_us(one, rest)))
    return _Piece(one.from_us, end_us, compute - rest.compute_us), rest


def _least_after_us(one: StepsRecord, after: _Piece) -> int:
    """How long it computed after its last step at least: what the other parts leave no room for."""
    others_us = one.until_us - one.from_us - (one.compute_us or 0)
    return max(0, after.until_us - after.from_us - others_us)


class JudgedWindows(NamedTuple):
    """Windows of attempts with their MFU, where it can be true."""

    windows: pl.DataFrame
    against: list[Contradiction]
    """Attempts whose loops say more than their GPUs can do: unknown."""
    near: list[str]
    """In words, those that say a little more: read as the peak."""


def judged(inside: pl.DataFrame, key: Sequence[str]) -> JudgedWindows:
    """Windows of attempts (``kind``: their GPU type) with ``mfu_ppm``, judged."""
    peaks = {kind: capability.gflops(kind) for kind in inside["kind"].unique().to_list()}
    peak = pl.col("kind").replace_strict(peaks, return_dtype=pl.Int64, default=None)
    mfu = pl.coalesce("mfu_ppm", pl.col("mflop_per_s") * ONE_PPM // (1000 * peak))
    inside = inside.with_columns(mfu_ppm=mfu)
    lasted = pl.col("end_ms") - pl.col("start_ms")
    minutes = (
        inside.filter(pl.col("mfu_ppm").is_not_null())
        .group_by(*key, "job", "kind", pl.col("start_ms") // JUDGED_MS)
        .agg(ppm=(pl.col("mfu_ppm") * lasted).sum() // lasted.sum(),
             from_ms=pl.col("start_ms").min(), to_ms=pl.col("end_ms").max())
        .filter(pl.col("ppm") > ONE_PPM)
    )  # fmt: skip
    if minutes.is_empty():
        return JudgedWindows(inside, [], [])
    most = (
        minutes.group_by(*key, "job", "kind")
        .agg(pl.col("ppm").max(), pl.col("from_ms").min(), pl.col("to_ms").max())
        .sort(*key)
    )
    wrong = most.filter(pl.col("ppm") > BELIEVED_PPM)
    known = inside.join(wrong.select(*key, wrong=pl.lit(value=True)), on=key, how="left")
    known = known.with_columns(mfu_ppm=pl.when(pl.col("wrong").is_null()).then("mfu_ppm"))
    near = most.filter(pl.col("ppm") <= BELIEVED_PPM)["job"].unique().sort().to_list()
    return JudgedWindows(known.drop("wrong"), [*_against(wrong, peaks)], _said_near(near))


def _against(wrong: pl.DataFrame, peaks: dict[str, int | None]) -> Iterator[Contradiction]:
    for job, kind, ppm, from_ms, to_ms in wrong.select(
        "job", "kind", "ppm", "from_ms", "to_ms"
    ).iter_rows():
        gflops = peaks[kind]
        of = "" if gflops is None else f" ({gflops / 1000:,.0f} TFLOP/s, dense BF16)"
        says = f"its loop says {ppm / ONE_PPM:,.1f} times the peak of a GPU of type {kind}{of}"
        yield Contradiction(
            sort=ContradictionSort.ABOVE_PEAK, name=job, source="tidemill.track", says=says,
            first_ms=from_ms, last_ms=to_ms,
        )  # fmt: skip


def _said_near(jobs: Sequence[str]) -> list[str]:
    if not jobs:
        return []
    percent, named = BELIEVED_PPM // 10_000 - 100, against.names(jobs)
    return [f"FLOP/s up to {percent} % above the peak of the GPU are read as the peak: {named}"]
