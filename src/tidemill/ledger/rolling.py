"""Rolling up: the events before a moment become books by the hour, and are dropped in one step.

The ledger reads the events that go, with bins of an hour; what is settled becomes a part of the
books, what is not is carried (``carried``) beside the cluster state. Later a ledger for any window
is made of the three (``reader_of``): it reads the events that are left, and adds what of the books
lies in its window. Windows that begin in what was rolled up must do so on the hour.
"""

from typing import NamedTuple

import numpy as np

from tidemill.journal import snapshots
from tidemill.journal.base import Journal, Progress
from tidemill.journal.moments import Calendar
from tidemill.journal.rolled_up import RolledUp
from tidemill.journal.table_journal import TableJournal
from tidemill.ledger import books, carried
from tidemill.ledger.books import Holder, HourlyBooks, Lines, MeasuredLines, Paid
from tidemill.ledger.reader import Ledger, Settled
from tidemill.ledger.rows import settled_rows
from tidemill.ledger.span_binning import Window
from tidemill.model import paging
from tidemill.model.batch import cut
from tidemill.model.errors import JournalError, SpecError
from tidemill.model.measures import HOUR_MS
from tidemill.model.policy import Policy
from tidemill.model.states import CONFIDENCES
from tidemill.model.tables import I64
from tidemill.model.world import World

BINS_AT_ONCE = 500  # hours whose sums are held before they become lines: some megabytes
_HOURLY = Window(bin_ms=HOUR_MS)
_NOTHING = Paid(*(np.zeros(0, np.int64) for _ in Paid._fields))
"""What was paid by a moment at which nodes have just been seen."""


class RollUp(NamedTuple):
    """What was done: how many events went and are left, and up to when they went."""

    gone: int
    left: int
    up_to_ms: int
    lines: int
    """Of the books, those of earlier roll-ups not counted."""
    is_larger: bool = False
    """Nothing was done: the books would have taken more than the events."""


def roll_up(
    journal: Journal,
    before_ms: int,
    policy: Policy,
    on_progress: Progress | None = None,
    *,
    is_to_shrink: bool = False,
) -> RollUp:
    """Roll up the events before a moment, as far as whole rows of the journal go.

    ``is_to_shrink``: not where the journal would take more after it than before.

    A row holds up to 4,096 events and is kept or dropped whole, so that the checksums of those that
    are left still prove each other. Where no row lies before the moment nothing happens.
    """
    if not isinstance(journal, TableJournal):
        raise JournalError(f"`{journal.where}` cannot be rolled up", hint="give a file or a server")
    journal.claim()
    was = journal.rolled_up()
    first = 0 if was is None else was.seq
    end = min(journal.ends_before(before_ms - 1), _last_row(journal))
    if end <= first:
        return RollUp(0, len(journal) - first, 0 if was is None else was.at_ms, 0)
    ledger = _begun(journal, was, policy, _HOURLY, weighs_mix=True)
    gathered = _Gathered()
    for batch in journal.batches(first):
        seq = ledger.world.seq
        ledger.read_batch(cut(batch, 0, end - seq))
        gathered.take_if_many(ledger)
        if on_progress is not None:
            on_progress(ledger.world.seq - first, end - first)
        if ledger.world.seq >= end:
            break
    gathered.take(ledger)
    made = gathered.books(ledger)
    book, rolled = books.pack(made), _rolled(journal, ledger)
    before = journal.bytes_before(end) + (0 if was is None else _bytes(was))
    if is_to_shrink and len(book) + _bytes(rolled) >= before:
        return RollUp(0, len(journal) - first, 0 if was is None else was.at_ms, 0, is_larger=True)
    journal.roll_up(rolled, book)
    return RollUp(end - first, len(journal) - end, ledger.now_ms, len(made.lines.bin))


def reader_of(
    journal: Journal, policy: Policy, window: Window, *, weighs_mix: bool = False
) -> tuple[Ledger, int]:
    """A ledger for a window, and the number of the event that it must read first."""
    rolled = journal.rolled_up()
    if rolled is None:
        return Ledger(policy, window, weighs_mix), 0
    ledger = _begun(journal, rolled, policy, window, weighs_mix=weighs_mix)
    if window.start_ms < rolled.at_ms:
        _refuse_off_the_hour(window, rolled.at_ms, Calendar.of(journal.facts()))
        ledger.past = books.within(books.unpack(journal.books()), window)
    return ledger, rolled.seq


def _begun(
    journal: Journal, rolled: RolledUp | None, policy: Policy, window: Window, *, weighs_mix: bool
) -> Ledger:
    if rolled is None:
        return Ledger(policy, window, weighs_mix)
    world = rolled.world(journal.where)
    return carried.resume(rolled.ledger, world, policy, window, weighs_mix=weighs_mix)


def _last_row(journal: TableJournal) -> int:
    """The number of the first event of the last row: that one stays in any case."""
    count = len(journal)
    return journal.row_of(count - 1) if count else 0


def _rolled(journal: TableJournal, ledger: Ledger) -> RolledUp:
    world = ledger.world
    tail = journal.tail_at(world.seq)
    stored = snapshots.pack(world, tail.crc)
    return RolledUp(
        world.seq, tail.at_ms, tail.crc, journal.names_at(world.seq), stored.layout,
        stored.digest, bytes(stored.body), carried.dump(ledger),
    )  # fmt: skip


def _bytes(rolled: RolledUp) -> int:
    return len(rolled.state) + len(rolled.ledger) + len(rolled.names or b"")


def _refuse_off_the_hour(window: Window, up_to_ms: int, calendar: Calendar) -> None:
    end_ms = window.end_ms
    for option, ms in (("--from", window.start_ms), ("--to", min(end_ms, up_to_ms))):
        if ms % HOUR_MS and not (ms == up_to_ms and end_ms >= up_to_ms):
            raise SpecError(
                f"{option} is {calendar.text(ms)}; what happened before {calendar.text(up_to_ms)}"
                " was rolled up into hourly books",
                hint=f"give whole hours: {calendar.text(ms - ms % HOUR_MS)} or"
                f" {calendar.text(ms - ms % HOUR_MS + HOUR_MS)}",
            )
    if window.bin_ms % HOUR_MS and window.bin_ms < end_ms - window.start_ms:
        raise SpecError(
            f"--bins is {window.bin_ms} ms; what happened before {calendar.text(up_to_ms)} was"
            " rolled up into hourly books",
            hint="give bins of whole hours, such as 6h",
        )


class _Gathered:
    """Lines of the books as they come."""

    def __init__(self) -> None:
        self._lines: list[Lines] = []
        self._paid: list[Paid] = []
        self._measured: list[MeasuredLines] = []
        self._holders: dict[Holder, int] = {}

    def take_if_many(self, ledger: Ledger) -> None:
        """Take what is settled when it has grown."""
        if len(ledger.supply.paid) >= BINS_AT_ONCE:
            self.take(ledger)

    def take(self, ledger: Ledger) -> None:
        """Take what is settled."""
        settled, world = ledger.hand_over(), ledger.world
        rows = settled_rows(world, settled)
        numbers = self._numbers(world)
        holder = numbers[rows.job]
        lines = Lines(rows.bin, rows.contract, rows.bucket, rows.team, holder, rows.known,
                      rows.period, rows.milli_ms)  # fmt: skip
        self._lines.append(books.summed(lines))
        self._paid += _paid(settled)
        told = settled.measured
        self._measured.append(
            MeasuredLines(told.bin, told.team, numbers[told.job], told.what,
                          told.bound, told.amount, told.weight)
        )  # fmt: skip

    def books(self, ledger: Ledger) -> HourlyBooks:
        """All that was taken."""
        joined = [np.concatenate(column) for column in zip(_NOTHING, *self._paid, strict=True)]
        return HourlyBooks(
            books.summed(*self._lines), Paid(*joined), tuple(self._holders),
            tuple(ledger.alarms_told), books.measured_together(*self._measured),
        )  # fmt: skip

    def _numbers(self, world: World) -> I64:
        """The number of the holder that each job is, and of nobody."""
        kinds = [str(shape.kind) for shape in world.shape_rows]
        jobs, count = world.jobs, world.job_count
        each = zip(
            world.job_users, *(
                paging.column(column, count).tolist() for column in (jobs.shape, jobs.confidence)
            ),
            books.comes_up(world).tolist(), books.saves(world).tolist(), strict=True,
        )  # fmt: skip
        numbers = [
            self._holders.setdefault(
                Holder(user, kinds[s], str(CONFIDENCES[known]), *rest), len(self._holders)
            )
            for user, s, known, *rest in each
        ]
        return np.array([*numbers, books.NOBODY], np.int64)


def _paid(settled: Settled) -> list[Paid]:
    found: list[Paid] = []
    for number, paid in settled.supply.paid.items():
        free = np.zeros((3, len(paid)), np.int64)
        use = settled.free_use.get(number)
        if use is not None:
            free[:, : use.shape[1]] = use
        found.append(Paid(np.full(len(paid), number), np.arange(len(paid)), paid.copy(), *free))
    return found
