"""A statement: the ledger of one window, ready to be asked.

``total`` is the additive ledger; ``by`` breaks it down by team, pool, contract, kind, class, job or
time. ``check`` asserts the one property everything rests on: paid equals the sum of the buckets,
for every contract and every time bin, to the last milli·ms.
"""

import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NoReturn, get_args

import numpy as np
from numpy.typing import NDArray

from tidemill.engine.fold.batch import PLACES
from tidemill.journal.moments import COUNTED, Calendar
from tidemill.journal.source import Source
from tidemill.ledger import price_periods, usable, waits
from tidemill.ledger.account import Account, zero
from tidemill.ledger.alike import Groups, groups
from tidemill.ledger.books import Holder, comes_up, saves
from tidemill.ledger.buckets import ABOUT, DIVIDED, FREE_OF_JOBS, RAN, Bucket
from tidemill.ledger.cells import by_code
from tidemill.ledger.measured import FIGURES
from tidemill.ledger.price_periods import PeriodPrices
from tidemill.ledger.reader import Ledger
from tidemill.ledger.rows import NO_JOB, LedgerRows, accounts, in_gpus, measured_of, rows_of
from tidemill.ledger.spans import Window
from tidemill.ledger.told import Told
from tidemill.ledger.usable import FreeUse
from tidemill.ledger.waits import UNKNOWN_USER, WaitDimension, WaitFigures, Waits
from tidemill.model import node_groups, paging
from tidemill.model.errors import SpecError
from tidemill.model.events import Event
from tidemill.model.figures import DeviceFigure
from tidemill.model.measures import FOREVER_MS, MINUTE_MS, WHOLE_MILLI
from tidemill.model.policy import Policy
from tidemill.model.states import CONFIDENCES, Confidence, JobClass, mostly
from tidemill.model.tables import I64

if TYPE_CHECKING:
    import polars as pl

    from tidemill.ledger.saving import Saving

Dimension = Literal["team", "user", "pool", "contract", "kind", "class", "job", "time"]
DIMENSIONS: tuple[Dimension, ...] = get_args(Dimension)

NOBODY = "(nobody)"

_Names = Callable[[int], str]
Some = NDArray[np.bool_] | I64 | slice
"""Which rows: a truth for each, their numbers, or from where to where."""


_MODELLED, _UNKNOWN, _MEASURED, _INFERRED, _ASSUMED = (
    CONFIDENCES.index(Confidence(word))
    for word in ("modelled", "unknown", "measured", "inferred", "assumed")
)

_STARTS = [Bucket.STARTING, Bucket.RESTART]
_SAVES = [Bucket.REWORK, Bucket.CHECKPOINT, Bucket.UNSAVED]


class Statement:
    """What one window's paid accelerator-time became."""

    def __init__(
        self,
        ledger: Ledger,
        calendar: Calendar = COUNTED,
        source: Source = Source.UNKNOWN,
        *,
        tells_submissions: bool = True,
        untold_states: frozenset[str] = frozenset(),
    ) -> None:
        window, self.world, self.policy = ledger.window, ledger.world, ledger.policy
        self.calendar = calendar
        """How its moments are written for people."""
        self.source = source
        """Who made the events; nothing that a twin made is called measured."""
        self.tells_submissions = tells_submissions
        """Whether it is known when jobs were submitted: if not, neither waits nor demand are."""
        self.untold_states = untold_states
        """In which ways (``source.OUT``) nodes may have been out of service, and nobody says so:
        then they count as Ready."""
        self.mfu_sources = ledger.beside.mfu_sources
        """By job: who says how efficient it was, in their own words."""
        self.stops = ledger.stops
        """Attempts stopped by why, up to now, window or not."""
        self._told, self.unadvertised = ledger.told, ledger.beside.unadvertised(self.world)
        self.host_uses = ledger.host_uses
        self.measured = measured_of(ledger)
        """What was measured beside the buckets: loads of services, figures of devices."""
        self.start_ms = window.start_ms
        self.end_ms = max(window.start_ms, min(window.end_ms, ledger.now_ms))
        self.bin_ms = window.bin_ms
        self.others_waited_ms = ledger.beside.others_waited_ms(self.start_ms, self.end_ms)
        """For how long pods waited for other schedulers, whose demand these books do not have."""
        self.past = ledger.past
        """What in it was rolled up; None: nothing, and every event of the window was read."""
        self.read_from_ms = ledger.begins_ms
        """From when on events were read; what came before was rolled up."""
        self.cut_short = ledger.cut_short if ledger.past is None else None
        """Attempts stopped at work, inside the window; None: not known of what was rolled up."""
        self.alarms = dict(ledger.alarms)
        """Jobs that were preempted as often as the policy allows, in words."""
        self.rows: LedgerRows = rows_of(ledger)
        if not tells_submissions:
            self.rows = _of_unknown_demand(self.rows)
        self.bins, self.paid = _paid(ledger)
        """The numbers of the time bins, and the paid milli·ms of each by contract."""
        self._waits = waits.waits_of(
            ledger, ledger.waits_from_ms, self.end_ms, tells_submissions=tells_submissions
        )
        self.free_use = _free_use(ledger, self.bins)
        """What arrivals could have used of what was free; None where the ledger did not ask."""
        self.check()
        self._count_gpus()

    def _count_gpus(self) -> None:
        """Count parts of GPUs (MIG instances, shares) as so much of one, from here on."""
        contracts = self.world.contract_rows
        if not any(row.unit for row in contracts):
            return
        self.rows = in_gpus(self.rows, contracts)
        self.__dict__.pop("_by_bucket", None)  # it was asked for by the check
        self.paid = self.by_bin_and_contract(slice(None))
        if self.free_use is not None:
            free = self.by_bin_and_contract(self.rows_in(*FREE_OF_JOBS))
            others = [
                np.array([[row.in_gpus(n) for row, n in zip(contracts, line, strict=True)]
                          for line in some.tolist()], np.int64).reshape(some.shape)
                for some in self.free_use[1:]
            ]  # fmt: skip
            self.free_use = FreeUse(free, *others)

    @property
    def waits(self) -> Waits:
        """How long the jobs waited that were submitted in the window."""
        if not self.has_waits:
            self._refuse("how long jobs waited", "end", "--to")
        return self._waits

    @property
    def length_ms(self) -> int:
        """How long the window is, up to now."""
        return self.end_ms - self.start_ms

    def check(self) -> None:
        """Assert that paid equals the sum of the buckets, per bin and contract."""
        rows, bins = self.rows, {*self.bins.tolist()}
        for some in self._near(slice(None)):
            assert rows.milli_ms[some].min() > 0, "a bucket is negative"
            unpaid = {*np.unique(rows.bin[some]).tolist()} - bins
            assert not unpaid, f"accelerator-time in bins that nobody paid for: {unpaid}"
        found = self.by_bin_and_contract(slice(None))
        wrong = np.argwhere(found != self.paid)
        assert not len(wrong), "; ".join(
            f"bin {self.bins[i]} contract {c}: paid {self.paid[i, c]}, found {found[i, c]}"
            for i, c in wrong[:5].tolist()
        )
        if self.free_use is not None:
            free = self.by_bin_and_contract(self.rows_in(*FREE_OF_JOBS))
            assert (free == self.free_use.free).all(), "what is free is not the sum of its buckets"

    def rows_in(self, *buckets: int) -> I64:
        """The numbers of the rows that are of some buckets, ascending."""
        order, where = self._by_bucket
        parts = [order[slice(*where.get(bucket, (0, 0)))] for bucket in buckets]
        return parts[0] if len(parts) == 1 else np.sort(np.concatenate(parts))

    def near(self, *buckets: int) -> Iterator[I64]:
        """The same, bucket by bucket, of rows that lie near each other at a time."""
        for bucket in buckets:
            yield from paging.near(self.rows_in(bucket))

    def _near(self, some: Some) -> Iterator[slice | I64]:
        """Some rows, a few at a time; those of all are not numbered."""
        if isinstance(some, slice):
            assert some == slice(None), "all, or by number"
            yield from paging.stretches(len(self.rows.bin))
        else:
            is_mask = some.dtype == bool
            yield from paging.near(np.flatnonzero(some) if is_mask else some.astype(np.int64))

    @cached_property
    def _by_bucket(self) -> tuple[I64, dict[int, tuple[int, int]]]:
        """The rows in the order of buckets, and from where to where each has them."""
        bucket = self.rows.bucket
        return by_code(lambda some: bucket[some], len(bucket))

    def by_bin_and_contract(self, some: Some) -> I64:
        """Milli·ms of some rows as a matrix like ``paid``."""
        rows, sums = self.rows, np.zeros(self.paid.size, np.int64)
        place = np.zeros(int(self.bins.max(initial=0)) + 1, np.int64)
        place[self.bins] = np.arange(len(self.bins)) * self.paid.shape[1]
        for part in self._near(some):
            np.add.at(sums, place[rows.bin[part]] + rows.contract[part], rows.milli_ms[part])
        return sums.reshape(self.paid.shape)

    @cached_property
    def prices(self) -> PeriodPrices:
        """What each contract cost in each price period."""
        return price_periods.prices(self.world.contract_rows)

    def mean_rate(self, c: int) -> int:
        """What an accelerator-hour of a contract cost on the mean, of the time that has a price."""
        rows, prices = self.rows, self.prices
        sums = np.zeros(len(prices.rates), np.int64)
        for some in self._near(slice(None)):
            mine = rows.contract[some] == c
            np.add.at(sums, rows.period[some][mine], rows.milli_ms[some][mine])
        known = [
            int(n) * (not bare) for n, bare in zip(sums, prices.is_unpriced[:, c], strict=True)
        ]
        money = sum(n * rate for n, rate in zip(known, prices.rates[:, c], strict=True))
        return int(money // max(1, sum(known)))

    def total(self) -> Account:
        """The whole ledger of the window."""
        return self._total

    def by(self, dimension: Dimension) -> dict[str, Account]:
        """The ledger broken down; nobody first, then in the order of appearance, name or time."""
        keys, names = self.keys(dimension)
        found, groups = np.unique(keys, return_inverse=True)
        contracts = self.world.contract_rows
        each = accounts(self.rows, groups, len(found), contracts, self.is_assumed)
        return dict(zip((names(key) for key in found.tolist()), each, strict=True))

    def waits_by(self, dimension: WaitDimension) -> dict[str, WaitFigures]:
        """How long jobs waited and took, by team, user, size, class or GPU type requested."""
        return waits.by(self.waits, self.world, dimension)

    def frame(self, what: str = "lines", by: str | None = None) -> "pl.DataFrame":
        """A table as a Polars DataFrame (``.to_pandas()`` makes it one of pandas).

        ``"lines"``, ``"jobs"``, ``"top"``, ``"waits"`` (with ``by`` a team, user, size, class or
        kind), or a dimension of ``by``: ``frame("team")``.
        """
        import polars as pl  # noqa: PLC0415 - half a second, and few ask for it

        from tidemill.ledger import records  # noqa: PLC0415 - made of statements

        return pl.DataFrame(records.table(self, what, by), infer_schema_length=None)

    def select(self, some: Some) -> Account:
        """The account of some rows."""
        mine = LedgerRows(*(column[some] for column in self.rows))
        contracts = self.world.contract_rows
        groups: I64 = np.broadcast_to(np.int64(0), len(mine.bin))
        if not len(groups):
            return zero()
        return accounts(mine, groups, 1, contracts, self.is_assumed[some])[0]

    def jobs_of(self, bucket: int, most: int = 5) -> list[tuple[str, int]]:
        """The jobs that put most into a bucket: the trace from a number to its rows."""
        sums = self.held_by_jobs(bucket)
        some = np.flatnonzero(sums)
        if len(some) > most:
            some = some[sums[some] >= np.partition(sums[some], -most)[-most]]
        largest = some[np.argsort(-sums[some], kind="stable")][:most]
        return [(self.world.job_names[j], int(sums[j])) for j in largest.tolist()]

    @cached_property
    def told(self) -> Told:
        """Of which jobs somebody measured what; of busy devices, for almost all of the time."""
        told = self.measured
        is_seen = (told.what == FIGURES + DeviceFigure.BUSY_SEEN) & (told.job >= 0)
        if not self.world.is_observed:
            return self._told
        seen = np.zeros(self.world.job_count, np.int64)
        np.add.at(seen, told.job[is_seen], told.weight[is_seen])
        return self._told.with_seen(seen * 1000 * WHOLE_MILLI, self.held_in(*RAN, Bucket.IDLE))

    def held_by_jobs(self, bucket: int | None = None) -> I64:
        """Milli·ms of every job, in one bucket or in all that it held."""
        return self.held_in(*(ABOUT if bucket is None else (bucket,)))

    def held_in(self, *buckets: int) -> I64:
        """Milli·ms of every job in some buckets."""
        rows, sums = self.rows, np.zeros(self.world.job_count, np.int64)
        for some in self.near(*buckets):
            held = some[rows.job[some] >= 0]
            np.add.at(sums, rows.job[held], rows.milli_ms[held])
        return sums

    @cached_property
    def holders(self) -> I64:
        """Who held anything: jobs, and below 0 those whose events were rolled up."""
        lowest, most = -len(self._holders) - 1, self.world.job_count
        is_there = np.zeros(most - lowest, bool)
        for some in self._near(slice(None)):
            is_there[self.rows.job[some] - lowest] = True
        found = np.flatnonzero(is_there) + lowest
        return paging.put_away(found[found != NO_JOB])

    def confidence_of(self, bucket: int) -> dict[Confidence, int]:
        """How the time in a job's bucket is known: milli·ms, as measured or as its jobs say."""
        rows, sums = self.rows, np.zeros(len(CONFIDENCES), np.int64)
        for some in self.near(bucket):
            held = some[rows.job[some] != NO_JOB]
            np.add.at(sums, self.known_as[held], rows.milli_ms[held])
        return {CONFIDENCES[i]: int(sums[i]) for i in np.flatnonzero(sums).tolist()}

    @cached_property
    def known_as(self) -> I64:
        """How each row is known, by its place in ``CONFIDENCES``: as measured, or as its job says.

        Rows that no job holds are known as their bucket is.
        """
        world, earlier = self.world, [*reversed(self._holders)]
        told = [CONFIDENCES.index(Confidence(h.confidence)) for h in earlier]
        each = _with(paging.column(world.jobs.confidence, world.job_count), [*told, _UNKNOWN])
        starts = saving = unheard = np.zeros(len(each), bool)
        if world.is_observed:  # the records of others do not tell how jobs come up and save
            starts = _with(comes_up(world), [*(h.comes_up for h in earlier), False])
            saving = _with(saves(world), [*(h.saves for h in earlier), False])
            alone = self._told.came_up_unheard(np.arange(world.job_count))
            unheard = _with(alone, [False] * (len(earlier) + 1))
        known = paging.blank(len(self.rows.bin), is_kept=True)
        for some in self._near(slice(None)):
            rows = LedgerRows(*(column[some] for column in self.rows))
            known[some] = self._known_as(rows, each, (starts, saving, unheard))
        return known

    def _known_as(self, rows: LedgerRows, each: I64, how: tuple[NDArray[np.bool_], ...]) -> I64:
        """The same of some rows.

        ``each``: how jobs, and who is behind them, say that they are known; ``how``: of which it
        was assumed how they come up, and how they save, and inferred when most of their GPUs did.
        """
        starts, saving, unheard = how
        is_held = rows.job != NO_JOB
        of_bucket = np.zeros(max(ABOUT) + 1, np.int64)
        of_bucket[[*ABOUT]] = [CONFIDENCES.index(about.confidence) for about in ABOUT.values()]
        is_divided = np.isin(rows.bucket, [*DIVIDED]) & is_held
        found = np.where(is_divided, each[rows.job], of_bucket[rows.bucket])
        # of a job of unknown efficiency, only a slower place is known
        found[is_divided & (rows.bucket == Bucket.LINKS) & (found == _UNKNOWN)] = _MODELLED
        found[np.isin(rows.bucket, _STARTS) & unheard[rows.job]] = _INFERRED
        found[np.isin(rows.bucket, _STARTS) & starts[rows.job]] = _ASSUMED
        found[np.isin(rows.bucket, _SAVES) & saving[rows.job]] = _ASSUMED
        found = np.where(is_held & (rows.known > 0), PLACES[rows.known], found)
        found[found == _MEASURED] = CONFIDENCES.index(self.as_known(Confidence.MEASURED))
        return found

    @property
    def is_assumed(self) -> NDArray[np.bool_]:
        """Of each row, whether it rests on a figure that somebody assumed."""
        known, found = self.known_as, np.zeros(len(self.rows.bin), bool)
        for some in self._near(slice(None)):
            found[some] = known[some] == _ASSUMED
        return found

    def confidence(self, bucket: int) -> Confidence:
        """How a bucket is known: as most of the time of its jobs is, or as such buckets are."""
        known = self.confidence_of(bucket)
        if known:
            return mostly(known)
        if bucket in DIVIDED:
            return self._held_as
        if bucket == Bucket.NO_DEMAND and (self.others_waited_ms or self.unadvertised):
            return self.as_known(Confidence.INFERRED)
        if self.world.is_observed and bucket in self.told.of(self.holders):
            most = self._held_as  # what some ranks told is inferred of the others
            return most if most is Confidence.INFERRED else self.as_known(Confidence.MEASURED)
        return self.as_known(ABOUT[bucket].confidence)

    @cached_property
    def _held_as(self) -> Confidence:
        """How most of what an efficiency divided is known; of what jobs held, where none did.

        That nothing was divided by an efficiency is known so: no efficiency was estimated.
        """
        for buckets in (DIVIDED, ABOUT):
            sums = Counter[Confidence]()
            for bucket in buckets:
                sums.update(self.confidence_of(bucket))
            if sums:
                return mostly(sums)
        return self.as_known(Confidence.MEASURED)

    def as_known(self, confidence: Confidence) -> Confidence:
        """As it may be called here: what would be measured is simulated under a twin.

        What a policy would have done with a recorded history is modelled.
        """
        if not self.source.is_simulated or confidence is not Confidence.MEASURED:
            return confidence
        return Confidence.MODELLED if self.source is Source.SHADOW else Confidence.SIMULATED

    def bin_length_ms(self, number: int) -> int:
        """How long a time bin is; the last one may be cut short."""
        start_ms = self.start_ms + number * self.bin_ms
        return max(1, min(self.end_ms, start_ms + self.bin_ms) - start_ms)

    @cached_property
    def groups(self) -> Groups:
        """All jobs by what describes them; see ``alike``."""
        return groups(self.world)

    @cached_property
    def savings(self) -> "list[Saving]":
        """Better checkpoint intervals of groups, those that win most first; see ``saving``."""
        from tidemill.ledger import saving  # noqa: PLC0415 - made of statements

        return saving.best(self)

    @cached_property
    def _total(self) -> Account:
        return self.select(slice(None))

    def keys(self, dimension: str) -> tuple[I64, _Names]:
        """For each row its key in a dimension, and the names of keys."""
        world, rows = self.world, self.rows
        if dimension == "contract":
            return self._by_contract()
        if dimension in ("pool", "kind"):
            return self._contract_keys(dimension)
        if dimension == "team":
            teams = world.queue_rows
            return rows.team, lambda key: teams[key].name if key >= 0 else NOBODY
        if dimension == "job":
            self.refuse_past("books by job")
            return rows.job, lambda key: world.job_names[key] if key >= 0 else NOBODY
        if dimension == "user":
            return self._user_keys(rows.job)
        if dimension == "class":
            return self._class_keys(rows.job)
        assert dimension == "time", dimension
        return rows.bin, lambda key: str(self.start_ms + key * self.bin_ms)

    @cached_property
    def node_groups(self) -> I64:
        """For each contract the first one of its group of nodes (``node_groups``)."""
        world = self.world
        alike = node_groups.first_alike(world.contract_rows, is_observed=world.is_observed)
        return np.array(alike, np.int64)

    def _by_contract(self) -> tuple[I64, _Names]:
        """Contracts by number, and behind them names under which their machines were bought later.

        Such a name may be that of another contract: then both are one line.
        """
        contracts, rows = self.world.contract_rows, self.rows
        names, later = [row.name for row in contracts], price_periods.names(contracts)
        if later is None:
            return self.node_groups[rows.contract], lambda key: names[key]
        groups = self.node_groups.tolist()
        number = {row.name: c for c, row in zip(groups, contracts, strict=True)}
        for name in (name for period in later for name in period):
            if name not in number:
                number[name] = len(names)
                names.append(name)
        codes = np.array([[number[name] for name in period] for period in later], np.int64)
        return codes[rows.period, rows.contract], lambda key: names[key]

    def measured_keys(self, dimension: str) -> I64:
        """For each row of what was measured its key by job, user, team or class."""
        job = self.measured.job
        if dimension == "user":
            return self._user_keys(job)[0]
        if dimension == "class":
            return self._class_keys(job)[0]
        return self.measured.team if dimension == "team" else job

    def _contract_keys(self, field: str) -> tuple[I64, _Names]:
        values = [getattr(row, field) for row in self.world.contract_rows]
        names = sorted(set(values))
        codes = np.array([names.index(value) for value in values], np.int64)
        return codes[self.rows.contract], lambda key: names[key]

    def _user_keys(self, jobs: I64) -> tuple[I64, _Names]:
        """Users in order of their names; what is held by jobs without one is unknown."""
        told, of_jobs = self.world.job_names.by_user()
        earlier = [holder.user for holder in reversed(self._holders)]
        names = sorted({*told, *earlier} - {""})
        number = {name: i + 1 for i, name in enumerate(names)} | {"": 0}
        of_told = np.array([number[user] for user in told], np.int64)
        codes = np.append(of_told[of_jobs], [*(number[user] for user in earlier), -1])
        shown = (NOBODY, UNKNOWN_USER, *names)
        return codes[jobs], lambda key: shown[key + 1]

    def _class_keys(self, jobs: I64) -> tuple[I64, _Names]:
        """As they were submitted: what a job said later is not known of what was rolled up."""
        world = self.world
        kinds = [str(shape.kind) for shape in world.shape_rows]
        names = sorted({*kinds, *(holder.job_class for holder in self._holders)})
        of_shape = np.array([names.index(kind) for kind in kinds] or [0], np.int64)
        of_jobs = of_shape[paging.column(world.jobs.shape, world.job_count)]
        told = [names.index(holder.job_class) for holder in reversed(self._holders)]
        codes = np.concatenate([of_jobs, np.array([*told, NO_JOB], np.int64)])
        return codes[jobs], lambda key: names[key] if key >= 0 else NOBODY

    def class_of(self, j: int) -> JobClass:
        """What a job is for: as it was submitted; a service, if it said so while it ran."""
        is_told = bool(self.told.serve(np.array([j]))[0])
        return JobClass.INFERENCE if is_told else self.world.shape_of(j).kind

    def called_otherwise(self) -> int:
        """Jobs that said they are services while they ran, and were not submitted as such."""
        count = 0
        for some in paging.stretches(self.world.job_count):
            jobs = np.arange(some.start, some.stop)
            count += int((self.told.serve(jobs) & ~self._are_submitted_to_serve(jobs)).sum())
        return count

    def are_services(self, jobs: I64) -> NDArray[np.bool_]:
        """Of each of these jobs, whether it answers requests."""
        return self.told.serve(jobs) | self._are_submitted_to_serve(jobs)

    def _are_submitted_to_serve(self, jobs: I64) -> NDArray[np.bool_]:
        kinds = [shape.kind is JobClass.INFERENCE for shape in self.world.shape_rows] or [False]
        of_shape = np.array(kinds)
        found, shape = np.zeros(len(jobs), bool), self.world.jobs.shape
        for some in paging.stretches(len(jobs)):
            found[some] = of_shape[shape[jobs[some]]]
        return found

    @property
    def _holders(self) -> tuple[Holder, ...]:
        return () if self.past is None else self.past.holders

    @property
    def has_waits(self) -> bool:
        """Whether it is known how jobs waited: as they stood at the end of what was rolled up, or
        later; before that, whoever waited again is not told apart any more.
        """
        return self.past is None or self.end_ms >= self.read_from_ms

    def refuse_past(self, asked: str) -> None:
        """Refuse what needs single jobs, where some of the window was rolled up."""
        if self.past is not None:
            self._refuse(asked, "begin", "--from")

    def _refuse(self, asked: str, verb: str, option: str) -> NoReturn:
        raise SpecError(
            f"{asked}: what happened before {self.calendar.text(self.read_from_ms)} was rolled up"
            " into hourly books, in which there are no single jobs",
            hint=f"{verb} later: {option} {shlex.quote(self.calendar.text(self._later_ms))}",
        )

    @property
    def _later_ms(self) -> int:
        """The first whole minute of which every event was read."""
        return -(-self.read_from_ms // MINUTE_MS) * MINUTE_MS


def _with(of_jobs: NDArray[Any], more: Sequence[int]) -> NDArray[Any]:
    """A column of all jobs, and what stands behind them (``LedgerRows``)."""
    return np.concatenate([of_jobs, np.array(more, of_jobs.dtype)])


def _of_unknown_demand(rows: LedgerRows) -> LedgerRows:
    """The rows of a fleet of which nobody knows who waited: what was free may have had demand."""
    is_free = rows.bucket == Bucket.NO_DEMAND
    return rows._replace(bucket=np.where(is_free, Bucket.CAUSE_UNKNOWN, rows.bucket))


def _paid(ledger: Ledger) -> tuple[I64, I64]:
    by_bin, past = ledger.supply.paid, ledger.past
    earlier = set() if past is None else set(past.paid.bin.tolist())
    bins = np.array(sorted({*by_bin, *earlier}), np.int64)
    paid = np.zeros((len(bins), ledger.world.contract_count), np.int64)
    for i, number in enumerate(bins.tolist()):
        row = by_bin.get(number, ())
        paid[i, : len(row)] = row  # contracts may have been signed since
    if past is not None:
        at = np.searchsorted(bins, past.paid.bin)
        np.add.at(paid, (at, past.paid.contract), past.paid.milli_ms)
    return bins, paid


def _free_use(ledger: Ledger, bins: I64) -> FreeUse | None:
    if ledger.usable is None:
        return None
    found, past = usable.by_bin(ledger.usable.sums, bins, ledger.world.contract_count), ledger.past
    if past is not None:
        where = np.searchsorted(bins, past.paid.bin), past.paid.contract
        for column, more in zip(found, past.paid[3:], strict=True):
            np.add.at(column, where, more)
    return found


def read(
    events: Iterable[Event],
    start_ms: int = 0,
    end_ms: int = FOREVER_MS,
    bin_ms: int = FOREVER_MS,
    policy: Policy | None = None,
    *,
    weighs_mix: bool = False,
) -> Statement:
    """The statement of a journal's events for a window."""
    ledger = Ledger(policy, Window(start_ms, end_ms, bin_ms), weighs_mix)
    return Statement(ledger.read(events))
