"""A statement: the ledger of one window, ready to be asked.

``total`` is the additive ledger; ``by`` breaks it down by team, pool, contract, kind, class, job or
time. ``check`` asserts the one property everything rests on: paid equals the sum of the buckets,
for every contract and every time bin, to the last milli·ms.
"""

from collections.abc import Callable
from typing import Literal, NamedTuple, get_args

import numpy as np

from tidemill.ledger.account import Account
from tidemill.ledger.buckets import Bucket
from tidemill.ledger.reader import Ledger
from tidemill.ledger.spans import Cells, Window, added
from tidemill.model.measures import FOREVER_MS, ONE_PPM
from tidemill.model.states import CONFIDENCES, Confidence
from tidemill.model.tables import I64
from tidemill.model.world import World
from tidemill.units import capability

Dimension = Literal["team", "pool", "contract", "kind", "class", "job", "time"]
DIMENSIONS: tuple[str, ...] = get_args(Dimension)

NOBODY = "(nobody)"
_UNKNOWN_CONFIDENCE = CONFIDENCES.index(Confidence.UNKNOWN)


class Rows(NamedTuple):
    """Every non-empty cell of the ledger: amounts by bin, contract, bucket, team and job.

    Team is -1 where nobody claims it, job is -1 where no job holds it.
    """

    bin: I64
    contract: I64
    bucket: I64
    team: I64
    job: I64
    milli_ms: I64


class Statement:
    """What one window's paid accelerator-time became."""

    def __init__(self, ledger: Ledger) -> None:
        window, self.world = ledger.window, ledger.world
        self.start_ms = window.start_ms
        self.end_ms = max(window.start_ms, min(window.end_ms, ledger.now_ms))
        self.bin_ms = window.bin_ms
        self.rows = _rows(ledger)
        self.paid = {number: row.tolist() for number, row in ledger.supply.paid.items()}
        self.check()

    def check(self) -> None:
        """Assert that paid equals the sum of the buckets, per bin and contract."""
        sums: dict[tuple[int, int], int] = {}
        rows = self.rows
        for number, c, amount in zip(
            rows.bin.tolist(), rows.contract.tolist(), rows.milli_ms.tolist(), strict=True
        ):
            sums[number, c] = sums.get((number, c), 0) + amount
        for number, paid in self.paid.items():
            for c, amount in enumerate(paid):
                found = sums.pop((number, c), 0)
                assert found == amount, f"bin {number} contract {c}: paid {amount}, found {found}"
        assert not sums, f"accelerator-time that nobody paid for: {sums}"
        assert not len(rows.milli_ms) or rows.milli_ms.min() > 0, "a bucket is negative"

    def total(self) -> Account:
        """The whole ledger of the window."""
        return self.select(np.ones(len(self.rows.bin), bool))

    def by(self, dimension: Dimension) -> dict[str, Account]:
        """The ledger broken down; keys in the order of their first appearance or of time."""
        keys, names = self._keys(dimension)
        found = np.unique(keys)
        return {names(int(key)): self.select(keys == key) for key in found}

    def select(self, mask: np.ndarray) -> Account:
        """The account of some rows."""
        world, rows = self.world, self.rows
        contracts, size = world.contract_count, len(Bucket)
        matrix = np.zeros((contracts, size), np.int64)
        np.add.at(matrix, (rows.contract[mask], rows.bucket[mask]), rows.milli_ms[mask])
        per_contract = matrix.tolist()
        rates = [row.usd_micro_per_hour for row in world.contract_rows]
        powers = [capability.gflops(row.kind) for row in world.contract_rows]
        milli_ms = _weighted(per_contract, [1] * contracts)
        money = _weighted(per_contract, rates)
        known = [power for power in powers if power is not None]
        is_known = len(known) == contracts
        return Account(milli_ms, money, _weighted(per_contract, known) if is_known else None)

    def jobs_of(self, bucket: Bucket, most: int = 5) -> list[tuple[str, int]]:
        """The jobs that put most into a bucket: the trace from a number to its rows."""
        rows = self.rows
        mask = (rows.bucket == bucket) & (rows.job >= 0)
        if not mask.any():
            return []
        sums = np.zeros(self.world.job_count, np.int64)
        np.add.at(sums, rows.job[mask], rows.milli_ms[mask])
        largest = np.argsort(-sums, kind="stable")[:most]
        return [(self.world.job_names[j], int(sums[j])) for j in largest.tolist() if sums[j]]

    def confidence_of(self, bucket: Bucket) -> dict[Confidence, int]:
        """How the time in a job's bucket is known: milli·ms by the confidence of its jobs."""
        rows = self.rows
        mask = (rows.bucket == bucket) & (rows.job >= 0)
        codes = self.world.jobs.confidence[rows.job[mask]]
        sums = np.zeros(len(CONFIDENCES), np.int64)
        np.add.at(sums, codes, rows.milli_ms[mask])
        return {c: int(n) for c, n in zip(CONFIDENCES, sums.tolist(), strict=True) if n}

    def bin_length_ms(self, number: int) -> int:
        """How long a time bin is; the last one may be cut short."""
        start_ms = self.start_ms + number * self.bin_ms
        return max(1, min(self.end_ms, start_ms + self.bin_ms) - start_ms)

    def mean_running_training(self) -> int:
        """How many training jobs ran at a time, on average; at least one."""
        jobs, count = self.world.jobs, self.world.job_count
        saving = np.flatnonzero((jobs.interval_ms[:count] >= 0) & (jobs.attempt[:count] > 0))
        held = np.zeros(max(1, count), np.int64)
        mask = self.rows.job >= 0
        np.add.at(held, self.rows.job[mask], self.rows.milli_ms[mask])
        total = self.world.shapes.total_milli[jobs.shape[saving]]
        ran_ms = held[saving] // np.maximum(1, total)
        return max(1, int(ran_ms.sum()) // max(1, self.end_ms - self.start_ms))

    def _keys(self, dimension: str) -> tuple[I64, Callable[[int], str]]:
        world, rows = self.world, self.rows
        if dimension == "contract":
            return rows.contract, lambda key: world.contract_rows[key].name
        if dimension in ("pool", "kind"):
            return self._contract_keys(dimension)
        if dimension == "team":
            teams = world.queue_rows
            return rows.team, lambda key: teams[key].name if key >= 0 else NOBODY
        if dimension == "job":
            return rows.job, lambda key: world.job_names[key] if key >= 0 else NOBODY
        if dimension == "class":
            return self._class_keys()
        assert dimension == "time", dimension
        return rows.bin, lambda key: str(self.start_ms + key * self.bin_ms)

    def _contract_keys(self, field: str) -> tuple[I64, Callable[[int], str]]:
        values = [getattr(row, field) for row in self.world.contract_rows]
        names = sorted(set(values))
        codes = np.array([names.index(value) for value in values], np.int64)
        return codes[self.rows.contract], lambda key: names[key]

    def _class_keys(self) -> tuple[I64, Callable[[int], str]]:
        names = sorted({str(shape.kind) for shape in self.world.shape_rows})
        codes = np.array([names.index(s.kind) for s in self.world.shape_rows] + [-1], np.int64)
        job = self.rows.job
        shape = np.where(job >= 0, self.world.jobs.shape[np.maximum(job, 0)], -1)
        return codes[shape], lambda key: names[key] if key >= 0 else NOBODY


def statement(ledger: Ledger) -> Statement:
    """The statement of everything a ledger has read."""
    return Statement(ledger)


def read(events: object, start_ms: int = 0, end_ms: int = FOREVER_MS, bin_ms: int = FOREVER_MS) -> Statement:
    """The statement of a journal's events for a window."""
    return Statement(Ledger(window=Window(start_ms, end_ms, bin_ms)).read(events))


def _rows(ledger: Ledger) -> Rows:
    world = ledger.world
    cells = _divided(world, ledger.cells())
    shapes = world.jobs.shape[cells.job] if len(cells.job) else np.zeros(0, np.int64)
    team = world.shapes.queue[shapes].astype(np.int64)
    parts = [Rows(cells.bin, cells.contract, cells.bucket, team, cells.job, cells.milli_ms)]
    for number, unheld in ledger.supply.unheld.items():
        contract, bucket, claimant = np.nonzero(unheld)
        amount = unheld[contract, bucket, claimant]
        same = np.full(len(amount), number, np.int64)
        nobody = np.full(len(amount), -1, np.int64)
        parts.append(Rows(same, contract, bucket, claimant - 1, nobody, amount))
    return Rows(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _divided(world: World, cells: Cells) -> Cells:
    """Divide productive time by each job's efficiency; unknown efficiency stays undivided."""
    jobs, job = world.jobs, cells.job
    if not len(job):
        return cells
    known = (cells.bucket == Bucket.UNKNOWN) & (jobs.confidence[job] != _UNKNOWN_CONFIDENCE)
    work = np.where(known, cells.milli_ms, 0)
    parts = {
        Bucket.HOST: _ppm(work, jobs.host_ppm[job]),
        Bucket.LINKS: _ppm(work, jobs.links_ppm[job]),
        Bucket.USEFUL: _ppm(work, jobs.mfu_ppm[job]),
    }
    parts[Bucket.BELOW_ROOFLINE] = work - sum(parts.values())
    rest = cells._replace(milli_ms=cells.milli_ms - work)
    divided = [
        cells._replace(bucket=np.full(len(job), bucket, np.int64), milli_ms=amount)
        for bucket, amount in parts.items()
    ]
    return added(rest, *divided)


def _ppm(amount: I64, ppm: I64) -> I64:
    whole, rest = np.divmod(amount, ONE_PPM)
    part: I64 = whole * ppm + rest * ppm // ONE_PPM
    return part


def _weighted(matrix: list[list[int]], weights: list[int]) -> tuple[int, ...]:
    return tuple(
        sum(row[b] * weight for row, weight in zip(matrix, weights, strict=True))
        for b in range(len(Bucket))
    )
