"""Touched: whose a leak is, in dollars: groups of alike jobs, teams that wait, contracts."""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from tidemill.ledger import printed
from tidemill.ledger.account import DENOMINATOR
from tidemill.ledger.statement import Statement
from tidemill.model import paging
from tidemill.model.tables import I64
from tidemill.model.world import World

MOST = 3  # named in a sentence


class Theirs(NamedTuple):
    """Somebody's part of a leak."""

    words: str
    milli_ms: int
    usd_micro: int | None
    """None where nobody said a price of some of it."""

    @property
    def amount(self) -> str:
        """Its dollars, or its hours where dollars are unknown."""
        return printed.cost_text(self.usd_micro, self.milli_ms)


class LeakParts(Sequence[Theirs]):
    """Everybody's part of a leak, the dearest first, in columns: it may be a million jobs'."""

    def __init__(
        self,
        keys: I64,
        milli_ms: I64,
        usd_micro: I64,
        is_unpriced: NDArray[np.bool_],
        name: Callable[[int], str],
    ) -> None:
        self.keys, self.milli_ms, self.usd_micro = keys, milli_ms, usd_micro
        self.is_unpriced, self._name = is_unpriced, name

    def __len__(self) -> int:
        return len(self.keys)

    @overload
    def __getitem__(self, i: int) -> Theirs: ...
    @overload
    def __getitem__(self, i: slice) -> "LeakParts": ...
    def __getitem__(self, i: int | slice) -> "Theirs | LeakParts":
        if isinstance(i, slice):
            return self.some(i)
        usd = None if self.is_unpriced[i] else int(self.usd_micro[i])
        return Theirs(self._name(int(self.keys[i])), int(self.milli_ms[i]), usd)

    def some(self, which: slice) -> "LeakParts":
        """Some of them."""
        columns = (self.keys, self.milli_ms, self.usd_micro)
        kept = [column[which] for column in columns]
        return LeakParts(kept[0], kept[1], kept[2], self.is_unpriced[which], self._name)

    def each(self) -> Iterator[tuple[int, Theirs]]:
        """Every part, with whose it is."""
        yield from zip(self.keys.tolist(), self, strict=True)


def contract_word(world: World) -> str:
    """What pays for nodes; of a cluster that is only looked at, nodes that are alike."""
    return "node group" if world.is_observed else "contract"


def by_group(statement: Statement, bucket: int, jobs: I64 | None = None) -> LeakParts:
    """Groups of alike jobs and their part of a bucket, the dearest first; only of some jobs."""
    found, nobody = statement.groups, len(statement.groups.first)
    of_job = found.of_job
    if jobs is not None:
        of_job = np.full(len(of_job), nobody, np.int64)
        of_job[jobs] = found.of_job[jobs]

    def group(job: I64) -> I64:
        return np.where(job >= 0, of_job[job], nobody) if len(of_job) else np.full_like(job, nobody)

    rows = statement.rows
    return _parts(
        statement, bucket, lambda some: group(rows.job[some]), nobody, lambda g: found.row(g).words
    )


def by_contract(statement: Statement, bucket: int) -> LeakParts:
    """Contracts and their part of a bucket, the dearest first."""
    rows, noun = statement.rows, contract_word(statement.world)
    contracts = statement.world.contract_rows
    return _parts(
        statement, bucket, lambda some: rows.contract[some], len(contracts),
        lambda c: f"{noun} `{contracts[c].name}`",
    )  # fmt: skip


def by_contract_of_then(statement: Statement, bucket: int) -> LeakParts:
    """The same by what machines were bought under at the time, as the ledger by contract has it."""
    keys, name = statement.keys("contract")
    noun, count = contract_word(statement.world), int(keys.max(initial=-1)) + 1
    return _parts(
        statement, bucket, lambda some: keys[some], count, lambda key: f"{noun} `{name(key)}`"
    )


def by_team(statement: Statement, bucket: int) -> LeakParts:
    """Teams whose jobs waited, or held, and their part of a bucket, the dearest first."""
    team, queues = statement.rows.team, statement.world.queue_rows
    return _parts(
        statement, bucket, lambda some: team[some], len(queues),
        lambda q: f"team `{queues[q].name}`",
    )  # fmt: skip


def _parts(
    statement: Statement,
    bucket: int,
    whose: Callable[[I64], I64],
    count: int,
    name: Callable[[int], str],
) -> LeakParts:
    """``whose``: the keys of rows; nobody's have one below 0, or from ``count`` on."""
    hours, unpriced = paging.blank(count, is_kept=True), np.zeros(count, bool)
    exact = paging.blank(count, is_kept=True).view(np.float64)
    for rows in statement.near(bucket):
        keys = whose(rows)
        is_theirs = (keys >= 0) & (keys < count)
        some, keys = rows[is_theirs], keys[is_theirs]
        np.add.at(hours, keys, statement.rows.milli_ms[some])
        np.add.at(exact, keys, _usd_micro(statement, some))
        unpriced[keys[_is_unpriced(statement, some)]] = True
    usd = paging.blank(count, is_kept=True)
    for at in paging.stretches(count):
        usd[at] = np.rint(exact[at])
    found = np.flatnonzero(hours)
    least_first = (hours if unpriced.any() else usd)[found]
    np.negative(least_first, out=least_first)
    paging.let_go()
    found = found[np.argsort(least_first, kind="stable")]
    del least_first
    columns = [paging.put_away(column[found]) for column in (hours, usd)]
    return LeakParts(paging.put_away(found), columns[0], columns[1], unpriced[found], name)


def words(theirs: LeakParts, most: int = MOST) -> str:
    """The dearest of them with their dollars, and how many more there are.

    Who has next to nothing is not named beside others.
    """
    is_little = _is_next_to_nothing(theirs)
    first = islice((i for i in range(len(theirs)) if not is_little[i]), most)
    named = ", ".join(f"{t.words} {t.amount}" for t in map(theirs.__getitem__, first))
    more = int(np.count_nonzero(~is_little)) - most
    return named + (f" and {more:,} more" if more > 0 else "")


def _is_next_to_nothing(theirs: LeakParts) -> NDArray[np.bool_]:
    """Whether each part is less than a thousandth of the largest, which is the first."""
    found = np.zeros(len(theirs), bool)
    for some in paging.stretches(len(theirs)):
        by_hours = theirs.milli_ms[some] * 1000 < theirs.milli_ms[0]
        by_usd = theirs.usd_micro[some] * 1000 < theirs.usd_micro[0]
        is_unpriced = theirs.is_unpriced[some] | theirs.is_unpriced[0]
        found[some] = np.where(is_unpriced, by_hours, by_usd)
    return found


def known_usd(theirs: LeakParts) -> int | None:
    """What some have of a leak together; None where nobody said a price of some of it."""
    return None if theirs.is_unpriced.any() else int(theirs.usd_micro.sum())


def hours_text(milli_ms: int) -> str:
    """Accelerator-hours, as sentences have them."""
    return f"{printed.hours_text(milli_ms)} accelerator-hours"


def _usd_micro(statement: Statement, some: I64) -> NDArray[np.float64]:
    """Micro-dollars of each row: for telling who, never for adding up the books."""
    rows, rates = statement.rows, statement.prices.rates.astype(float) / DENOMINATOR
    made: NDArray[np.float64] = rows.milli_ms[some] * rates[rows.period[some], rows.contract[some]]
    return made


def _is_unpriced(statement: Statement, some: I64) -> NDArray[np.bool_]:
    """Of each row, whether nobody said what its contract costs."""
    rows = statement.rows
    found: NDArray[np.bool_] = statement.prices.is_unpriced[rows.period[some], rows.contract[some]]
    return found
