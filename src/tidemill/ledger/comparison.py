"""Two ledgers side by side: what was paid and won, how long jobs waited, what became of them.

A cheaper fleet on which everybody waits is not a win, so money and waits stand in one table. The
buckets follow in ``difference``. Where the two do not hold the same work, or windows of different
length, ``warnings`` says so: then a difference may be one of what was asked for.
"""

from collections import Counter
from typing import Literal, NamedTuple

from tidemill.ledger import ratios
from tidemill.ledger.account import Account
from tidemill.ledger.buckets import Bucket
from tidemill.ledger.statement import Statement
from tidemill.ledger.waits import WaitSpread
from tidemill.model.measures import duration_text

Unit = Literal["usd_micro", "milli_ms", "ms", "jobs", "milli"]

_STATS = ("mean", "p50", "p90", "p99", "max")


class Side(NamedTuple):
    """One figure of one ledger; None: unknown, or there is nothing to say it of."""

    value: int | None
    is_lower_bound: bool = False
    is_upper_bound: bool = False


class Compared(NamedTuple):
    """One figure of both."""

    key: str
    title: str
    unit: Unit
    before: Side
    after: Side

    @property
    def change(self) -> Side:
        """The second minus the first; both kinds of bound at once: it may be more or less."""
        before, after = self.before, self.after
        if before.value is None or after.value is None:
            return Side(None)
        if self.key == "paid" and (before.is_lower_bound or after.is_lower_bound):
            return Side(None)  # what has no price may be anything, on each side
        return Side(
            after.value - before.value,
            after.is_lower_bound or before.is_upper_bound,
            after.is_upper_bound or before.is_lower_bound,
        )


def compare(before: Statement, after: Statement) -> list[Compared]:
    """The figures that decide whether a change was worth it."""
    sides = [_sides(before), _sides(after)]
    titles = {key: (title, unit) for key, title, unit, _ in sides[0]}
    values = [{key: side for key, _, _, side in rows} for rows in sides]
    return [
        Compared(key, title, unit, values[0][key], values[1][key])
        for key, (title, unit) in titles.items()
    ]


def warnings(before: Statement, after: Statement) -> list[str]:
    """What makes two journals hard to compare; nothing where they are alike."""
    found = []
    if before.length_ms != after.length_ms:
        lengths = (duration_text(s.length_ms) for s in (before, after))
        found.append("the windows are of different length: {} and {}".format(*lengths))
    first, second = _work(before), _work(after)
    if first != second:
        only = [(first - second).total(), (second - first).total()]
        found.append(
            f"the two do not hold the same work: {first.total():,} and {second.total():,} jobs were"
            f" submitted, {only[0]:,} only before and {only[1]:,} only after (by name and request);"
            " a difference may be one of what was asked for"
        )
    return found


def _work(statement: Statement) -> Counter[tuple[str, str, int]]:
    """The jobs that were submitted, by name, team and GPUs requested."""
    world = statement.world
    return Counter(
        (world.job_names[j], shape.team, shape.total_milli)
        for j in statement.waits.job.tolist()
        for shape in (world.shape_of(j),)
    )


def _sides(statement: Statement) -> list[tuple[str, str, Unit, Side]]:
    account, figures = statement.total(), statement.waits.figures()
    is_bound = ratios.goodput(account).is_lower_bound
    useful = account.milli_ms[Bucket.USEFUL]
    is_known = useful > 0 or not is_bound
    per_hour = ratios.usd_micro_per_useful_hour(account)
    rows: list[tuple[str, str, Unit, Side]] = [
        ("paid", "paid", "usd_micro",
         Side(account.known_usd(account.paid_usd_micro), _is_partly_priced(account))),
        ("paid_hours", "paid GPU-hours", "milli_ms", Side(account.paid_milli_ms)),
        ("useful_hours", "useful GPU-hours", "milli_ms",
         Side(useful if is_known else None, is_lower_bound=is_bound and is_known)),
        ("usd_per_useful_hour", "a useful hour costs", "usd_micro",
         Side(per_hour, is_upper_bound=is_bound and per_hour is not None)),
    ]  # fmt: skip
    rows += [
        (f"jobs_{key}", f"jobs {title}", "jobs", Side(getattr(figures, key)))
        for key, title in (
            ("jobs", "submitted"), ("done", "done"), ("failed", "failed"),
            ("cancelled", "cancelled"), ("running", "still running"), ("waiting", "still waiting"),
        )
    ]  # fmt: skip
    rows += _spread("wait", "queue wait", "ms", figures.wait)
    rows += _spread("completion", "submit to end", "ms", figures.completion)
    rows += _spread("slowdown", "slowdown", "milli", figures.slowdown, "largest")
    return rows


def _is_partly_priced(account: Account) -> bool:
    return 0 < account.unpriced_milli_ms < account.paid_milli_ms


def _spread(
    key: str, title: str, unit: Unit, found: WaitSpread | None, longest: str = "longest"
) -> list[tuple[str, str, Unit, Side]]:
    return [
        (
            f"{key}_{name}", f"{title}, {longest if name == 'max' else name}", unit,
            Side(None) if found is None or found.is_untold(name)
            else Side(getattr(found, name), name in found.at_least),
        )
        for name in _STATS
    ]  # fmt: skip
