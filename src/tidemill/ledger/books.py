"""Books by the hour: what is left of events that were rolled up, and adds up as they did.

A line is an amount by hour, contract, bucket, team and *kind of holder* (the user, the class and
the confidence of the jobs that held it, or nobody); what was paid, and what was free and could have
been used, stand beside. Buckets and confidences are kept by their keys, so that a version with
others reads the same. Parts are added by each roll-up and may reach into hours of earlier parts:
work that was settled later. All amounts are integers, and sums of hours are the sums of windows.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from tidemill.journal import columns
from tidemill.ledger.buckets import ABOUT, BY_KEY
from tidemill.ledger.span_binning import Window
from tidemill.model import codes, paging
from tidemill.model.errors import SpecError
from tidemill.model.measures import HOUR_MS
from tidemill.model.tables import I64
from tidemill.model.world import World

FORM, WITHOUT_PERIODS = 2, 1
NOBODY = -1  # instead of a holder


class Holder(NamedTuple):
    """What is left of the jobs that held something."""

    user: str
    job_class: str
    confidence: str
    """How their efficiency is known."""
    comes_up: bool
    """Whether they said how long they take to come up."""
    saves: bool
    """Whether they said how often they save."""


class Lines(NamedTuple):
    """Amounts; ``bin`` is an hour since the beginning, or a bin of a window."""

    bin: I64
    contract: I64
    bucket: I64
    team: I64
    holder: I64
    known: I64
    period: I64
    """As ``price_periods`` numbers them."""
    milli_ms: I64


class Paid(NamedTuple):
    """What was paid, by bin and contract; and what of it was free, usable and unasked."""

    bin: I64
    contract: I64
    milli_ms: I64
    free: I64
    usable: I64
    unasked: I64


class MeasuredLines(NamedTuple):
    """What was measured beside the buckets (``ledger.measured``), by bin, team and holder."""

    bin: I64
    team: I64
    holder: I64
    what: I64
    bound: I64
    amount: I64
    weight: I64


NOT_MEASURED = MeasuredLines(*(np.zeros(0, np.int64) for _ in MeasuredLines._fields))


class HourlyBooks(NamedTuple):
    """All that was rolled up, or what of it lies in a window."""

    lines: Lines
    paid: Paid
    holders: tuple[Holder, ...]
    alarms: tuple[tuple[int, int, str], ...] = ()
    """When a job was preempted too often, which, and in which words."""
    measured: MeasuredLines = NOT_MEASURED


def comes_up(world: World) -> NDArray[np.bool_]:
    """Which jobs say how long they take to come up."""
    jobs, count = world.jobs, world.job_count
    both = paging.column(jobs.startup_ms, count) + paging.column(jobs.restart_ms, count)
    found: NDArray[np.bool_] = both > 0
    return found


def saves(world: World) -> NDArray[np.bool_]:
    """Which jobs say how often they save."""
    found: NDArray[np.bool_] = paging.column(world.jobs.interval_ms, world.job_count) > 0
    return found


def summed(rows: Lines, *more: Lines) -> Lines:
    """Lines that differ in nothing but the amount made one; in their order."""
    joined = [np.concatenate(parts) for parts in zip(rows, *more, strict=True)]
    return Lines(*added_up(joined[:-1], joined[-1:]))


def added_up(keys: Sequence[I64], amounts: Sequence[I64]) -> list[I64]:
    """Columns of keys and of amounts, with one row for each key; in the order of keys."""
    if not len(keys[0]):
        return [*keys, *amounts]
    order = np.lexsort(keys[::-1])
    ordered = [key[order] for key in keys]
    is_new = np.zeros(len(order), bool)
    is_new[0] = True
    for key in ordered:
        is_new[1:] |= key[1:] != key[:-1]
    starts = np.flatnonzero(is_new)
    return [
        *(key[starts] for key in ordered),
        *(np.add.reduceat(amount[order], starts) for amount in amounts),
    ]


def pack(books: HourlyBooks) -> bytes:
    """Books as they are kept."""
    lines = books.lines
    keys = [ABOUT[bucket].key for bucket in sorted(set(lines.bucket.tolist()))]
    words = sorted(set(lines.known.tolist()))
    lines = lines._replace(
        bucket=np.array([keys.index(ABOUT[b].key) for b in lines.bucket.tolist()], np.int64),
        known=np.array([words.index(w) for w in lines.known.tolist()], np.int64),
    )
    said = {
        "form": FORM if lines.period.any() else WITHOUT_PERIODS,
        "buckets": keys,
        "known": [str(codes.CONFIDENCES[word]) if word else "" for word in words],
        "holders": books.holders,
        "alarms": books.alarms,
        "lines": _packed(lines),
        "paid": _packed(books.paid),
        "measured": _packed(books.measured),
    }
    return columns.deflated(msgspec.msgpack.encode(said))


def unpack(kept: Iterable[bytes]) -> HourlyBooks:
    """All parts as one; a bucket that this version or its plug-ins do not know is refused."""
    found = [_unpacked(part) for part in kept]
    holders = tuple(dict.fromkeys(holder for books in found for holder in books.holders))
    lines = [
        books.lines._replace(holder=_renumbered(books.lines.holder, books.holders, holders))
        for books in found
    ]
    paid = [np.concatenate(parts) for parts in zip(*(books.paid for books in found), strict=True)]
    return HourlyBooks(
        summed(*lines),
        Paid(*added_up(paid[:2], paid[2:])),
        holders,
        tuple(alarm for books in found for alarm in books.alarms),
        _all_measured(found, holders),
    )


def _all_measured(found: Sequence[HourlyBooks], holders: Sequence[Holder]) -> MeasuredLines:
    parts = [
        books.measured._replace(holder=_renumbered(books.measured.holder, books.holders, holders))
        for books in found
    ]
    return measured_together(*parts)


def measured_together(*parts: MeasuredLines) -> MeasuredLines:
    """What was measured, of several parts."""
    joined = [np.concatenate(column) for column in zip(NOT_MEASURED, *parts, strict=True)]
    return MeasuredLines(*added_up(joined[:5], joined[5:]))


def within(books: HourlyBooks, window: Window) -> HourlyBooks:
    """What lies in a window on hour borders, by its bins."""
    start, end = window.start_ms // HOUR_MS, -(-window.end_ms // HOUR_MS)
    lines, paid = books.lines, books.paid
    mine, of_paid = ((hour >= start) & (hour < end) for hour in (lines.bin, paid.bin))
    lines = Lines(*(column[mine] for column in lines))
    paid = Paid(*(column[of_paid] for column in paid))
    alarms = [one for one in books.alarms if window.start_ms <= one[0] < window.end_ms]
    told = books.measured
    in_window = (told.bin >= start) & (told.bin < end)
    told = MeasuredLines(*(column[in_window] for column in told))
    return HourlyBooks(
        summed(lines._replace(bin=_bins(lines.bin, window))),
        Paid(*added_up((_bins(paid.bin, window), paid.contract), paid[2:])),
        books.holders,
        tuple(alarms),
        measured_together(told._replace(bin=_bins(told.bin, window))),
    )


def _bins(hours: I64, window: Window) -> I64:
    bins: I64 = (hours * HOUR_MS - window.start_ms) // window.bin_ms
    return bins


def _renumbered(codes_: I64, mine: Sequence[Holder], every: Sequence[Holder]) -> I64:
    number = {holder: i for i, holder in enumerate(every)}
    table = np.array([*(number[holder] for holder in mine), NOBODY], np.int64)
    return table[codes_]


def _packed(table: Lines | Paid | MeasuredLines) -> tuple[int, dict[str, bytes]]:
    return len(table.bin), {
        name: columns.pack(column, in_steps=name == "bin")
        for name, column in table._asdict().items()
    }


def _unpacked(kept: bytes) -> HourlyBooks:
    said: dict[str, Any] = msgspec.msgpack.decode(columns.inflated(kept))
    if said["form"] > FORM:
        raise SpecError(
            f"the hourly books of this journal have form {said['form']}; this Tidemill knows"
            f" {FORM}",
            hint="use the newer Tidemill that rolled it up",
        )
    if unknown := [key for key in said["buckets"] if key not in BY_KEY]:
        raise SpecError(
            f"the hourly books of this journal have the bucket `{unknown[0]}`, which nothing here"
            " knows",
            hint="install the plug-in, or use the version, that it was rolled up with",
        )
    buckets = np.array([BY_KEY[key] for key in said["buckets"]] or [0], np.int64)
    words = {str(word): code for code, word in enumerate(codes.CONFIDENCES)} | {"": 0}
    known = np.array([words[word] for word in said["known"]] or [0], np.int64)
    lines = Lines(*_columns(said["lines"], Lines._fields))
    return HourlyBooks(
        lines._replace(bucket=buckets[lines.bucket], known=known[lines.known]),
        Paid(*_columns(said["paid"], Paid._fields)),
        tuple(Holder(*holder) for holder in said["holders"]),
        tuple((at_ms, job, text) for at_ms, job, text in said["alarms"]),
        MeasuredLines(*_columns(said.get("measured", (0, {})), MeasuredLines._fields)),
    )


def _columns(table: tuple[int, dict[str, bytes]], names: Sequence[str]) -> list[I64]:
    count, packed = table
    return [
        columns.ColumnReader(packed[name]).column(count)
        if name in packed and count
        else np.zeros(count, np.int64)
        for name in names
    ]
