"""FOCUS: what a provider billed (versions 1.0 to 1.2), as prices of machines and instance types.

Only usage that is billed by time counts. What a machine cost in a charge period, over the hours
that it was billed there, is its rate in that period; those of one instance type together are the
rate of the type. Periods with the same rate that follow each other are one.
``EffectiveCost`` is taken where it is given: it spreads what a commitment cost over what used it.
"""

import json
import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from tidemill.live.csv import tables, times
from tidemill.live.csv.headers import plain
from tidemill.live.prices import currencies, labels
from tidemill.live.prices.commitments import Commitment, titled
from tidemill.live.prices.matching import PriceLine
from tidemill.model.errors import SpecError
from tidemill.model.states import Terms

_COSTS = ("effectivecost", "billedcost", "contractedcost", "listcost")
_UNIT_PRICES = ("contractedunitprice", "listunitprice")
_HOURS = {
    "hour": 1.0, "hours": 1.0, "hr": 1.0, "hrs": 1.0, "h": 1.0, "1hour": 1.0,
    "minute": 1 / 60, "minutes": 1 / 60, "second": 1 / 3600, "seconds": 1 / 3600, "s": 1 / 3600,
}  # fmt: skip
_BESIDE = frozenset({"gibibytehour", "gibibytehours", "gibhour", "gibhours", "gbhour", "gbhours"})
"""Units of what a machine is billed for beside its hours, as memory by Google."""
_TYPE_KEYS = ("InstanceType", "instanceType", "x_InstanceType", "MachineType", "machine_type",
              "ServiceType")  # fmt: skip
_MANY = re.compile(r"(\d+)\s*(\D+)")
"""A unit of several: `100 Hours`, as Azure prices some."""
_NAME_TAGS = ("Name", "name", "kubernetes.io/hostname", "node", "hostname")
HOUR_MS = 3_600_000
MOST_PERIODS = 1_000
"""Rates of one machine: a bill by the hour, of a machine at spot prices, has them for six weeks."""
_LEAST_HOURS = 1e-9


def is_focus(columns: Sequence[str]) -> bool:
    """Whether columns are those of FOCUS: a cost or unit price, and how much was priced."""
    known = {plain(column) for column in columns}
    return bool(known & {*_COSTS, *_UNIT_PRICES}) and bool(
        known & {"pricingquantity", "consumedquantity", "chargeperiodstart"}
    )


class Bill(NamedTuple):
    """What a bill says."""

    lines: tuple[PriceLine, ...]
    """The prices of machines and types."""
    unused: tuple[Commitment, ...]
    """What of commitments nothing used."""
    notes: tuple[str, ...]
    """What was left out of it."""


def read(rows: pl.DataFrame, path: Path) -> Bill:
    """The prices that a bill says, what it says of commitments that nothing used, and the rest."""
    rows = rows.rename({column: plain(column) for column in rows.columns})
    if "billingcurrency" in rows.columns:
        currencies.refuse_others(rows["billingcurrency"], f"`{path}` is billed in")
    notes = list[str]()
    used, idle = _usage(rows, notes)
    table = _read(used)
    has_hours = (pl.col("hours") > 0).fill_null(value=False)
    of = ("resource", "start_ms")
    is_beside = pl.col("is_beside") & has_hours.any().over(*of) & pl.col("resource").is_not_null()
    billed = table.filter((has_hours | is_beside) & pl.col("usd").is_not_null())
    if left := len(table) - len(billed):
        notes.append(f"usage that is not billed by time, in no machine's price: {left:,}")
    if not len(billed) and not len(idle):
        raise SpecError(
            f"`{path}` has no usage that is billed by time",
            hint="lines need ChargeCategory Usage, a PricingUnit of hours, and a cost",
        )
    machines = _by_machine(billed)
    notes += [*_said_changes(machines), *_said_parts(machines)]
    unused = _unused(_read(idle), machines, notes)
    return Bill((*_of_machines(machines), *_of_types(machines)), unused, tuple(notes))


def _usage(rows: pl.DataFrame, notes: list[str]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Usage alone: purchases, taxes and credits are nobody's hours; unused commitments apart."""
    if "chargecategory" in rows.columns:
        is_usage = rows["chargecategory"].str.to_lowercase() == "usage"
        if left := len(rows) - int(is_usage.sum()):
            worth = _worth(rows.filter(~is_usage.fill_null(value=False)))
            notes.append(f"left out as no usage (purchases, taxes, credits): {left:,}{worth}")
        rows = rows.filter(is_usage)
    if "commitmentdiscountstatus" in rows.columns:
        unused = rows["commitmentdiscountstatus"].str.to_lowercase() == "unused"
        unused = unused.fill_null(value=False)
        return rows.filter(~unused), rows.filter(unused)
    return rows, rows.head(0)


def _unused(idle: pl.DataFrame, machines: pl.DataFrame, notes: list[str]) -> tuple[Commitment, ...]:
    """What of each commitment and type nothing used, charge period by charge period.

    A line without a type is of that of the machines which used the same commitment, and one that is
    not in hours is of as many as its dollars buy at what they cost; where neither is known it is
    on no books, and told.
    """
    if not len(idle):
        return ()
    used = machines.filter(pl.col("commitment").is_not_null(), pl.col("type").is_not_null())
    of = used.group_by("commitment").agg(
        kind=pl.col("type").unique(), rate=pl.col("usd").sum() / pl.col("hours").sum()
    )
    alone = pl.when(pl.col("kind").list.len() == 1).then(pl.col("kind").list.first())
    told = idle.join(of, on="commitment", how="left", maintain_order="left").with_columns(
        type=pl.coalesce("type", alone),
        hours=pl.coalesce("hours", pl.col("usd") / pl.col("rate")),
    )
    is_told = (
        pl.all_horizontal(pl.col("commitment", "type", "hours", "usd").is_not_null())
        & (pl.col("hours") > 0) & (pl.col("end_ms") > pl.col("start_ms"))
    ).fill_null(value=False)  # fmt: skip
    if len(lost := told.filter(~is_told)):
        usd = f"${lost['usd'].sum():,.2f}"
        notes.append(
            f"commitments that nothing used, without a type, hours or a charge period:"
            f" {len(lost):,} ({usd}), on no books"
        )
    summed = told.filter(is_told).group_by(
        "commitment", "type", "region", "start_ms", "end_ms", maintain_order=True
    ).agg(pl.col("usd", "hours").sum(), pl.col("row").min())  # fmt: skip
    return tuple(titled(map(_commitment, summed.iter_rows(named=True))))


def _commitment(row: Mapping[str, Any]) -> Commitment:
    """What nothing used in one charge period: as many machines as its hours are, all the time."""
    length = (row["end_ms"] - row["start_ms"]) / HOUR_MS
    return Commitment(
        row["row"], row["commitment"], row["type"], row["region"] or "",
        row["start_ms"], row["end_ms"], None, max(1, round(1_000 * row["hours"] / length)),
        billed_usd_micro=max(0, round(row["usd"] * 1_000_000)),
    )  # fmt: skip


def _worth(rows: pl.DataFrame) -> str:
    """What lines that are in no machine's price cost together, in words."""
    cost = next((name for name in _COSTS if name in rows.columns), None)
    usd = None if cost is None else tables.numbers(rows[cost], cost).sum()
    return "" if not usd else f" ({'-' if usd < 0 else ''}${abs(usd):,.2f} together)"


def _read(rows: pl.DataFrame) -> pl.DataFrame:
    """The columns that count, each with its type; null where nobody said."""
    quantity, unit = _first(rows, "pricingquantity"), _first(rows, "pricingunit")
    if "pricingquantity" not in rows.columns:
        quantity, unit = _first(rows, "consumedquantity"), _first(rows, "consumedunit")
    amount = tables.numbers(quantity, "PricingQuantity")
    factor = unit.fill_null("hours").map_elements(_hours, return_dtype=pl.Float64)
    cost = next((name for name in _COSTS if name in rows.columns), None)
    if cost is not None:
        usd = tables.numbers(rows[cost], cost)
    else:
        price = next(name for name in _UNIT_PRICES if name in rows.columns)
        usd = tables.numbers(rows[price], price) * amount
    details = _first(rows, "skupricedetails").fill_null(_first(rows, "xskudetails"))
    tags = _first(rows, "tags")
    given = _first(rows, "xinstancetype").fill_null(_first(rows, "instancetype"))
    return pl.DataFrame({
        "row": pl.int_range(2, len(rows) + 2, eager=True),
        "resource": _first(rows, "resourceid"),
        "sku": _first(rows, "skuid"),
        "name": _first(rows, "resourcename").fill_null(_from_json(tags, _NAME_TAGS)),
        "type": given.fill_null(_from_json(details, _TYPE_KEYS)),
        "region": _first(rows, "regionid").fill_null(_first(rows, "region")),
        "start_ms": _moments(rows, "chargeperiodstart"),
        "end_ms": _moments(rows, "chargeperiodend"),
        "hours": amount * factor,
        "is_beside": unit.fill_null("").map_elements(
            lambda text: plain(text) in _BESIDE, return_dtype=pl.Boolean
        ),
        "usd": usd,
        "terms": _terms(rows),
        "commitment": _first(rows, "commitmentdiscountname").fill_null(
            _first(rows, "commitmentdiscountid")
        ),
    })  # fmt: skip


def _hours(unit: str) -> float | None:
    """How many hours a unit is; None: it is no time."""
    many = _MANY.fullmatch(unit.strip())
    found = _HOURS.get(plain(many[2] if many else unit))
    return None if found is None else found * (int(many[1]) if many else 1)


def _first(rows: pl.DataFrame, column: str) -> pl.Series:
    if column not in rows.columns:
        return pl.Series([None] * len(rows), dtype=pl.String)
    return times.blank(rows[column])


def _moments(rows: pl.DataFrame, column: str) -> pl.Series:
    if column not in rows.columns:
        return pl.Series([None] * len(rows), dtype=pl.Int64)
    return times.moments_ms(rows[column], "UTC", column)[0]


def _terms(rows: pl.DataFrame) -> pl.Series:
    """How each line was bought: under a commitment, at the spot price, or on demand."""
    category = _first(rows, "pricingcategory").fill_null("").str.to_lowercase()
    is_committed = _first(rows, "commitmentdiscountid").is_not_null() | (category == "committed")
    terms = category.replace_strict(
        {"dynamic": Terms.SPOT.value, "standard": Terms.ON_DEMAND.value},
        default="",
        return_dtype=pl.String,
    )
    return terms.set(is_committed, Terms.RESERVED.value)


def _from_json(texts: pl.Series, keys: Sequence[str]) -> pl.Series:
    """The value of the first key that a JSON object has; null for everything else."""

    def value(text: str) -> str | None:
        try:
            found = json.loads(text)
        except ValueError:
            return None
        said = found if isinstance(found, dict) else {}
        return next((str(said[key]) for key in keys if said.get(key)), None)

    return texts.map_elements(value, return_dtype=pl.String)


def _by_machine(billed: pl.DataFrame) -> pl.DataFrame:
    """Dollars and hours of each machine; a line without one is a machine of its own.

    Several lines of one charge period (a licence beside the machine, GPUs beside CPUs) are of the
    same hours: the fewest that any of them has, and never more than the period, unless it is a
    scale set, which is several machines. Lines of one SKU (a part of the day under a commitment,
    the rest on demand) are one after the other. What it is and how it was bought is what the
    dearest of them says.
    """
    length = (pl.col("end_ms") - pl.col("start_ms")) / HOUR_MS
    known = pl.coalesce("resource", "name")
    lone = pl.concat_str(pl.lit("row "), pl.col("row"))
    dearest = pl.col("type", "region", "commitment", "name").sort_by("usd", descending=True)
    is_one = ~pl.col("resource").fill_null("").str.contains(_SCALE_SET) & (length > 0)
    told = billed.with_columns(
        machine=pl.coalesce(known, lone),
        is_named=known.is_not_null(),
        period=pl.col("start_ms").fill_null(-pl.col("row")),
    )
    of = ("machine", "period", pl.coalesce("sku", lone))
    together = pl.when(pl.col("hours").is_not_null()).then(pl.col("hours").sum().over(*of))
    return (
        told.with_columns(
            hours=pl.when(is_one).then(pl.min_horizontal(together, length)).otherwise(together)
        )
        .group_by("machine", "is_named", "period", maintain_order=True)
        .agg(
            pl.col("usd").sum(), pl.col("hours").min(), pl.col("row", "start_ms").min(),
            pl.col("end_ms").max(),
            pl.col("terms").sort_by("usd", descending=True).first(),
            dearest.drop_nulls().first(),
        )
    )  # fmt: skip


_SCALE_SET = r"(?i)/virtualMachineScaleSets/[^/]+/?$"
_WAY = pl.col("commitment").fill_null(pl.col("terms").str.replace("_", " "))
"""How a machine was bought, in words."""


class _BilledTime(NamedTuple):
    """A time in which what is billed does not change: dollars, and billed hours, per hour of it."""

    start_ms: int | None
    """None, and no end either: nobody said when."""
    end_ms: int | None
    usd: float
    hours: float
    way: str | None = None
    """How it was bought, in words, where that changes."""


def _said_changes(machines: pl.DataFrame) -> list[str]:
    """Which machines were bought in several ways, one after the other, in words."""
    told = machines.filter(pl.col("is_named")).group_by("machine", maintain_order=True).agg(
        name=pl.col("name").drop_nulls().first(), ways=_WAY.unique(maintain_order=True)
    )  # fmt: skip
    several = told.filter(pl.col("ways").list.len() > 1)
    if not len(several):
        return []
    shown = [f"`{name or machine}` ({', '.join(way or 'nobody says how' for way in how)})"
             for machine, name, how in several.head(5).iter_rows()]  # fmt: skip
    more = " …" if len(several) > 5 else ""
    words = f"bought in several ways one after the other: {', '.join(shown)}{more}"
    return [f"{words}: every hour costs what it was billed, and is of the contract of then"]


_LEAST_PART = 0.99
"""Of its charge periods, so much a machine is billed at least that was there all the time."""


def _said_parts(machines: pl.DataFrame) -> list[str]:
    """Which machines were billed for a part of their charge periods only, in words."""
    length = (pl.col("end_ms") - pl.col("start_ms")) / HOUR_MS
    told = machines.filter(pl.col("is_named"), length > 0).group_by("machine", maintain_order=True)
    each = told.agg(
        name=pl.col("name").drop_nulls().first(), hours=pl.col("hours").sum(), of=length.sum()
    )
    parts = each.filter(pl.col("hours") < _LEAST_PART * pl.col("of"))
    if not len(parts):
        return []
    shown = [f"`{name or machine}` ({hours:,.4g} of {of:,.4g} h)"
             for machine, name, hours, of in parts.head(5).iter_rows()]  # fmt: skip
    more = " …" if len(parts) > 5 else ""
    words = f"billed for a part of their charge periods: {', '.join(shown)}{more}"
    words += ": every hour in which such a node is on the books costs the rate of those that were"
    return [
        f"{words} billed, so its dollars are more than the bill's where it was not always there"
    ]


def _of_machines(machines: pl.DataFrame) -> list[PriceLine]:
    """The rates of each machine one after the other, under the terms that most of its hours had."""
    found = list[PriceLine]()
    known = machines.filter(pl.col("is_named"))
    for (_,), some in known.group_by("machine", maintain_order=True):
        most = some.sort("hours", descending=True).row(0, named=True)
        names = {labels.tail(n) for n in (most["machine"], most["name"]) if n}
        line = PriceLine(
            most["row"], frozenset(names), terms=most["terms"],
            commitment=most["commitment"] or "",
        )  # fmt: skip
        found += _lines(line, _times(some))
    return found


def _of_types(machines: pl.DataFrame) -> list[PriceLine]:
    """The rates of each instance type and region one after the other: the mean of its machines.

    How those were bought says nothing of a machine that the bill does not name.
    """
    found = list[PriceLine]()
    known = machines.filter(pl.col("type").is_not_null())
    for (kind, region), some in known.group_by("type", "region", maintain_order=True):
        each = [
            part._replace(way=None)
            for _, rows in some.group_by("machine", maintain_order=True)
            for part in _times(rows)
        ]
        line = PriceLine(some["row"].item(0), type=str(kind), region=str(region or ""))
        found += _lines(line, _together(each, most_hours=None))
    return found


def _times(rows: pl.DataFrame) -> list[_BilledTime]:
    """What one machine was billed, time by time; it has an hour in each hour at most.

    Where nobody says when, all of it together.
    """
    is_told = rows["start_ms"].null_count() + rows["end_ms"].null_count() == 0
    if not is_told or (rows["end_ms"] <= rows["start_ms"]).any():
        return [_BilledTime(None, None, float(rows["usd"].sum()), float(rows["hours"].sum()))]
    length = (rows["end_ms"] - rows["start_ms"]) / HOUR_MS
    ways = rows.select(_WAY).to_series()
    if ways.n_unique() == 1:
        ways = pl.Series([None] * len(rows), dtype=pl.String)
    told = zip(rows["start_ms"], rows["end_ms"], rows["usd"] / length, rows["hours"] / length, ways,
               strict=True)  # fmt: skip
    is_set = bool(labels.scale_set(f"{rows['machine'].item(0)}/"))
    return _together([_BilledTime(*one) for one in told], most_hours=None if is_set else 1.0)


def _together(parts: Sequence[_BilledTime], most_hours: float | None) -> list[_BilledTime]:
    """Times that overlap, cut at each other's edges and added up."""
    timed = [part for part in parts if part.start_ms is not None and part.end_ms is not None]
    if len(timed) < len(parts):
        usd, hours = (sum(_amount(part, name) for part in parts) for name in ("usd", "hours"))
        return [_BilledTime(None, None, usd, hours)]
    starts, ends = (np.array([part[i] for part in timed], np.int64) for i in (0, 1))
    edges = np.unique(np.concatenate([starts, ends]))
    rates = np.zeros((2, len(edges)))
    for row, name in zip(rates, ("usd", "hours"), strict=True):
        amounts = [getattr(part, name) for part in timed]
        np.add.at(row, np.searchsorted(edges, starts), amounts)
        np.subtract.at(row, np.searchsorted(edges, ends), amounts)
    usd, hours = rates.cumsum(axis=1)
    if most_hours is not None:
        hours = np.minimum(hours, most_hours)
    ways: list[str | None] = [None] * len(edges)
    for part in sorted(timed, key=lambda part: part.usd):  # the dearest of a time says it
        if part.way is not None:
            first, last = (edges.searchsorted(ms or 0) for ms in (part.start_ms, part.end_ms))
            ways[first:last] = [part.way] * (last - first)
    return [
        _BilledTime(start, end, usd[i], hours[i], ways[i])
        for i, (start, end) in enumerate(pairwise(edges.tolist()))
        if hours[i] > _LEAST_HOURS
    ]


def _amount(part: _BilledTime, name: str) -> float:
    """Dollars or hours of a time in all."""
    amount = float(getattr(part, name))
    if part.start_ms is None or part.end_ms is None:
        return amount
    return amount * (part.end_ms - part.start_ms) / HOUR_MS


def _lines(line: PriceLine, times_billed: Sequence[_BilledTime]) -> list[PriceLine]:
    """A line for each time with a rate of its own; too many of them are one, at their mean."""
    found = list[PriceLine]()
    for part in times_billed:
        usd_micro = max(0, round(part.usd / part.hours * 1_000_000))
        last = found[-1] if found else None
        is_next = last is not None and last.ends_ms == part.start_ms and last.bought == part.way
        if last is not None and is_next and _is_equal(last, usd_micro):
            found[-1] = last._replace(ends_ms=part.end_ms)
        else:
            found.append(line._replace(starts_ms=part.start_ms, ends_ms=part.end_ms,
                                       node_usd_micro=usd_micro, bought=part.way))  # fmt: skip
    if len(found) <= MOST_PERIODS:
        return found
    usd, hours = (sum(_amount(part, name) for part in times_billed) for name in ("usd", "hours"))
    mean = max(0, round(usd / hours * 1_000_000))
    return [line._replace(starts_ms=found[0].starts_ms, ends_ms=found[-1].ends_ms,
                          node_usd_micro=mean)]  # fmt: skip


def _is_equal(line: PriceLine, usd_micro: int) -> bool:
    """Whether two rates differ by no more than the rounding of a bill's numbers."""
    assert line.node_usd_micro is not None, "a bill prices machines"
    return abs(line.node_usd_micro - usd_micro) <= 1
