"""How the fields of delimited text become typed columns: one rule per sort of field.

A rule is a function of one text (``one``); it is applied to the *different* texts of a chunk, of
which there are few for states, limits and TRES. Where nearly all texts differ (times, job ids),
``fast`` does the usual forms of a whole column at once and leaves the rest to ``one``; a test holds
the two equal.
"""

from collections.abc import Callable, Iterator
from datetime import tzinfo
from typing import Any, NamedTuple

import polars as pl

from tidemill.live.slurm import amounts, identity, states, times

Read = Callable[[str], Any]
Fast = Callable[[pl.Expr], list[pl.Expr]]
TYPES: dict[type, type[pl.DataType]] = {int: pl.Int64, str: pl.String, bool: pl.Boolean}


class FieldRule(NamedTuple):
    """What becomes of one sort of field: the names it gives, their types, and how."""

    gives: tuple[str, ...]
    types: tuple[type, ...]
    one: Read
    """One text to one value, or to a tuple of values where several are given."""
    fast: Fast | None = None
    """The usual forms of a whole column; null where ``one`` has to look."""
    is_whole: bool = False
    """``fast`` leaves nothing open: its nulls are unknown."""
    prepare: Callable[[pl.Expr], pl.Expr] | None = None
    """What ``fast`` is handed instead of the texts: work to be done once for all that it gives."""


class WrongTexts(NamedTuple):
    """Texts of a column that its rule refuses, and which rows hold them."""

    rows: pl.Series
    faults: dict[str, str]


class MadeColumns(NamedTuple):
    """What a rule made of one column of texts, and what it refused (null there)."""

    rule: FieldRule
    columns: list[pl.Series]
    wrong: WrongTexts | None


class RuleSet:
    """The rules of the columns of one file, as expressions that every chunk goes through."""

    def __init__(self, rules: list[FieldRule]) -> None:
        self._rules = rules
        self._prepared = dict[str, pl.Expr]()
        self._fast = dict[str, pl.Expr]()
        self._left = dict[str, pl.Expr]()
        for i, rule in enumerate(rules):
            given = pl.col(str(i))
            if rule.prepare:
                self._prepared[f"{i}!"] = rule.prepare(given)
                given = pl.col(f"{i}!")
            fast = rule.fast(given) if rule.fast else []
            self._fast |= {f"{i}.{k}": expression for k, expression in enumerate(fast)}
            if not rule.is_whole:
                is_open = [pl.col(f"{i}.{k}").is_null() for k in range(len(fast))]
                self._left[f"{i}?"] = pl.all_horizontal(pl.col(str(i)) != "", *is_open)

    def apply(self, texts: list[pl.Series]) -> Iterator[MadeColumns]:
        """The columns that the rules make of these texts, one rule per column of texts."""
        table = pl.DataFrame([column.alias(str(i)) for i, column in enumerate(texts)])
        plan = table.lazy().with_columns(**self._prepared).with_columns(**self._fast)
        done = plan.select(*self._fast, **self._left).collect()
        for i, rule in enumerate(self._rules):
            fast = [done[f"{i}.{k}"] for k in range(len(rule.gives))] if rule.fast else None
            yield _finish(rule, texts[i], fast, None if rule.is_whole else done[f"{i}?"])


def _finish(
    rule: FieldRule, texts: pl.Series, fast: list[pl.Series] | None, left: pl.Series | None
) -> MadeColumns:
    """What the fast form left open is read text by text."""
    if left is None or not left.any():
        return MadeColumns(rule, fast or [_nothing(len(texts), kind) for kind in rule.types], None)
    rest = texts.filter(left)
    values, faults = _read_each(rule, rest.unique().to_list())
    columns = [
        _mapped(rest if fast else texts, {text: row[i] for text, row in values.items()}, kind)
        for i, kind in enumerate(rule.types)
    ]
    if fast:
        at = left.arg_true()
        columns = [one.scatter(at, found) for one, found in zip(fast, columns, strict=True)]
    wrong = WrongTexts(texts.is_in(list(faults)) & left, faults) if faults else None
    return MadeColumns(rule, columns, wrong)


def _read_each(
    rule: FieldRule, texts: list[str]
) -> tuple[dict[str, tuple[Any, ...]], dict[str, str]]:
    values, faults = {}, {}
    for text in texts:
        try:
            found = rule.one(text)
        except ValueError as error:
            faults[text] = str(error)
        else:
            values[text] = tuple(found) if len(rule.gives) > 1 else (found,)
    return values, faults


def _mapped(texts: pl.Series, values: dict[str, Any], kind: type) -> pl.Series:
    values = {text: value for text, value in values.items() if value is not None}
    if not values:
        return _nothing(len(texts), kind)
    new = pl.Series(list(values.values()), dtype=TYPES[kind])
    return texts.replace_strict(
        pl.Series(list(values)), new, default=None, return_dtype=TYPES[kind]
    )


def _nothing(length: int, kind: type) -> pl.Series:
    return pl.repeat(None, length, dtype=TYPES[kind], eager=True)


# --- the rules ----------------------------------------------------------------------------------


def text(name: str, *nothing: str) -> FieldRule:
    """A text as it is; `(null)`, `N/A` and these words are none."""
    words = [*NO_TEXT, *nothing]
    return _plain(name, lambda texts: [texts.replace(words, None)])


def _plain(name: str, fast: Fast) -> FieldRule:
    """A rule whose fast form is all of it."""
    return FieldRule((name,), (str,), str, fast, is_whole=True)


NO_TEXT = ["", "(null)", "N/A", "n/a"]


def number(name: str) -> FieldRule:
    """A whole number; `UNLIMITED` and the like are none."""
    return FieldRule((name,), (int,), whole, lambda texts: [_plain_numbers(texts)])


def positive(name: str) -> FieldRule:
    """A count that Slurm prints as 0 where there is nothing to count yet."""

    def above_zero(texts: pl.Expr) -> list[pl.Expr]:
        found = _plain_numbers(texts)
        return [pl.when(found > 0).then(found)]

    return FieldRule((name,), (int,), lambda found: whole(found) or None, above_zero)


def whole(found: str) -> int | None:
    """One whole number; see ``number``."""
    if found in times.NO_DURATION | times.UNLIMITED:
        return None
    return amounts.count(found)


def _plain_numbers(texts: pl.Expr) -> pl.Expr:
    """Digits only: polars would also take signs."""
    found = texts.cast(pl.Int64, strict=False)
    return pl.when((found >= 0) & ~texts.str.starts_with("+") & ~texts.str.starts_with("-")).then(
        found
    )


def _seconds(texts: pl.Expr) -> pl.Expr:
    """Whole seconds in ms."""
    found = _plain_numbers(texts)
    return pl.when(found < times.MOST_SECONDS).then(found * 1000)


def moment(name: str, zone: tzinfo | None) -> FieldRule:
    """A point in time in ms; see ``times.time_ms``."""
    return FieldRule(
        (name,),
        (int,),
        lambda found: times.time_ms(found, zone),
        lambda texts: [_moments(texts, zone)],
    )


def _moments(texts: pl.Expr, zone: tzinfo | None) -> pl.Expr:
    """Seconds since 1970; or ISO without a zone, where the zone is known."""
    epoch = _seconds(texts)
    epoch = pl.when(epoch > 0).then(epoch)
    if zone is None:
        return epoch
    is_known = (texts > KNOWN_ZONES[0]) & (texts < KNOWN_ZONES[1])
    is_iso = (texts.str.len_bytes() == len("2026-01-01T00:00:00")) & is_known
    iso = pl.when(is_iso).then(texts)
    naive = iso.str.to_datetime("%Y-%m-%dT%H:%M:%S", strict=False, time_unit="ms")
    there = naive.dt.replace_time_zone(str(zone), ambiguous="earliest", non_existent="null")
    return pl.coalesce(epoch, there.dt.timestamp("ms"))


KNOWN_ZONES = ("1971", "2037")
"""Years whose summer times polars knows as the standard library does."""


def limit(name: str) -> FieldRule:
    """A time limit in ms; none where there is none, or the partition's holds."""
    return FieldRule((name,), (int,), times.limit_ms)


def limit_minutes(name: str) -> FieldRule:
    """The same, from minutes."""
    return FieldRule((name,), (int,), times.limit_minutes_ms)


def _id_parts(texts: pl.Expr) -> pl.Expr:
    """The parts by one regular expression over the column."""
    usual = pl.when(texts.str.len_bytes() <= identity.MOST_DIGITS).then(texts)
    return usual.str.extract_groups(identity.PATTERN)


def _job_ids(parts: pl.Expr) -> list[pl.Expr]:
    groups = parts.struct
    number, task, tasks, offset = (groups.field(str(i)) for i in range(1, 5))
    leader, in_het = number.cast(pl.Int64), offset.is_not_null()
    in_array = task.is_not_null() | tasks.is_not_null()
    return [
        pl.when(~in_array & ~in_het).then(leader),
        pl.when(in_array).then(leader),
        task.cast(pl.Int64),
        tasks,
        pl.when(in_het).then(leader),
        offset.cast(pl.Int64),
    ]


JOB_ID = FieldRule(
    identity.JobIdentity._fields,
    (int, int, int, str, int, int),
    identity.parse,
    _job_ids,
    prepare=_id_parts,
)
"""A printed job id in all its parts."""

RAW_ID = FieldRule(
    ("raw_id",),
    (int,),
    identity.raw,
    lambda texts: [
        pl.when(texts.str.len_bytes() <= identity.MOST_DIGITS).then(_plain_numbers(texts))
    ],
    prepare=lambda texts: texts.str.split_exact(".", 1).struct.field("field_0"),
)
"""The own number of a job, from `JobIDRaw`."""

JOB_STATE = FieldRule(("state", "state_flags"), (str, str), states.job)
NODE_STATE = FieldRule(("state", "state_flags"), (str, str), states.node)


def _tres(found: str) -> tuple[str | None, int | None, str | None]:
    gpus = amounts.tres_gpus(found)
    return (None if found in amounts.NOTHING else found), gpus.number, gpus.type


def _gres(found: str) -> tuple[str | None, int | None, str | None]:
    gpus = amounts.gres_gpus(found)
    return (None if found in amounts.NOTHING else found), gpus.number, gpus.type


REQ_TRES = FieldRule(("req_tres", "req_gpus", "req_type"), (str, int, str), _tres)
ALLOC_TRES = FieldRule(("alloc_tres", "gpus_allocated", "alloc_type"), (str, int, str), _tres)
TRES_PER_NODE = FieldRule(("tres_per_node", "node_gpus", "node_type"), (str, int, str), _gres)
NODE_GRES = FieldRule(("gres", "gpus", "gpu_type"), (str, int, str), _gres)


def nodes_or_reason(found: str) -> tuple[str | None, str | None]:
    """squeue's last column: the nodes, or the reason in brackets."""
    if found.startswith("("):
        return None, found[1:].removesuffix(")")
    return found or None, None


NODES_OR_REASON = FieldRule(("node_list", "reason"), (str, str), nodes_or_reason)


def node_list(name: str) -> FieldRule:
    """Nodes, folded as Slurm prints them; `None assigned` is none."""
    return text(name, "None assigned")
