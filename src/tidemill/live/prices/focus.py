"""FOCUS: what a provider billed (versions 1.0 to 1.2), as prices of machines and instance types.

Only usage that is billed by time counts. What a machine cost in a charge period, over the hours
that it was billed there, is its rate; those of one instance type together are the rate of the type.
``EffectiveCost`` is taken where it is given: it spreads what a commitment cost over what used it.
"""

import json
from collections.abc import Sequence
from pathlib import Path

import polars as pl

from tidemill.live.csv import tables, times
from tidemill.live.csv.headers import plain
from tidemill.live.prices import labels
from tidemill.live.prices.matching import PriceLine
from tidemill.model.errors import SpecError
from tidemill.model.states import Terms

_COSTS = ("effectivecost", "billedcost", "contractedcost", "listcost")
_UNIT_PRICES = ("contractedunitprice", "listunitprice")
_HOURS = {
    "hour": 1.0, "hours": 1.0, "hr": 1.0, "hrs": 1.0, "h": 1.0, "1hour": 1.0,
    "minute": 1 / 60, "minutes": 1 / 60, "second": 1 / 3600, "seconds": 1 / 3600, "s": 1 / 3600,
}  # fmt: skip
_TYPE_KEYS = ("InstanceType", "instanceType", "x_InstanceType", "MachineType", "machine_type")
_NAME_TAGS = ("Name", "name", "kubernetes.io/hostname", "node", "hostname")
HOUR_MS = 3_600_000


def is_focus(columns: Sequence[str]) -> bool:
    """Whether columns are those of FOCUS: a cost or unit price, and how much was priced."""
    known = {plain(column) for column in columns}
    return bool(known & {*_COSTS, *_UNIT_PRICES}) and bool(
        known & {"pricingquantity", "consumedquantity", "chargeperiodstart"}
    )


def lines(rows: pl.DataFrame, path: Path) -> tuple[tuple[PriceLine, ...], tuple[str, ...]]:
    """The prices that a bill says, and what was left out of it."""
    rows = rows.rename({column: plain(column) for column in rows.columns})
    _refuse_other_currencies(rows, path)
    notes = list[str]()
    used = _usage(rows, notes)
    table = _read(used)
    billed = table.filter(
        pl.col("hours").is_not_null() & (pl.col("hours") > 0) & pl.col("usd").is_not_null()
    )
    if left := len(table) - len(billed):
        notes.append(f"usage that is not billed by time, in no machine's price: {left:,}")
    if not len(billed):
        raise SpecError(
            f"`{path}` has no usage that is billed by time",
            hint="lines need ChargeCategory Usage, a PricingUnit of hours, and a cost",
        )
    machines = _by_machine(billed)
    return (*_of_machines(machines), *_of_types(machines)), tuple(notes)


def _refuse_other_currencies(rows: pl.DataFrame, path: Path) -> None:
    if "billingcurrency" not in rows.columns:
        return
    others = {c.upper() for c in rows["billingcurrency"].unique().to_list() if c} - {"USD"}
    if others:
        raise SpecError(
            f"`{path}` is billed in {', '.join(sorted(others))}; the books are in USD",
            hint="convert its costs to USD first",
        )


def _usage(rows: pl.DataFrame, notes: list[str]) -> pl.DataFrame:
    """Usage alone: purchases, taxes and credits are nobody's hours; unused commitments are told."""
    if "chargecategory" in rows.columns:
        is_usage = rows["chargecategory"].str.to_lowercase() == "usage"
        if left := len(rows) - int(is_usage.sum()):
            notes.append(f"left out as no usage (purchases, taxes, credits): {left:,}")
        rows = rows.filter(is_usage)
    if "commitmentdiscountstatus" in rows.columns:
        unused = rows["commitmentdiscountstatus"].str.to_lowercase() == "unused"
        unused = unused.fill_null(value=False)
        if unused.any():
            notes.append(f"commitments that nothing used, in no machine's price: {unused.sum():,}")
        rows = rows.filter(~unused)
    return rows


def _read(rows: pl.DataFrame) -> pl.DataFrame:
    """The columns that count, each with its type; null where nobody said."""
    quantity, unit = _first(rows, "pricingquantity"), _first(rows, "pricingunit")
    if "pricingquantity" not in rows.columns:
        quantity, unit = _first(rows, "consumedquantity"), _first(rows, "consumedunit")
    amount = tables.numbers(quantity, "PricingQuantity")
    factor = unit.fill_null("hours").map_elements(
        lambda text: _HOURS.get(plain(text)), return_dtype=pl.Float64
    )
    cost = next((name for name in _COSTS if name in rows.columns), None)
    if cost is not None:
        usd = tables.numbers(rows[cost], cost)
    else:
        price = next(name for name in _UNIT_PRICES if name in rows.columns)
        usd = tables.numbers(rows[price], price) * amount
    details = _first(rows, "skupricedetails")
    tags = _first(rows, "tags")
    given = _first(rows, "xinstancetype").fill_null(_first(rows, "instancetype"))
    return pl.DataFrame({
        "row": pl.int_range(2, len(rows) + 2, eager=True),
        "resource": _first(rows, "resourceid"),
        "name": _first(rows, "resourcename").fill_null(_from_json(tags, _NAME_TAGS)),
        "type": given.fill_null(_from_json(details, _TYPE_KEYS)),
        "region": _first(rows, "regionid").fill_null(_first(rows, "region")),
        "start_ms": _moments(rows, "chargeperiodstart"),
        "end_ms": _moments(rows, "chargeperiodend"),
        "hours": amount * factor,
        "usd": usd,
        "terms": _terms(rows),
        "commitment": _first(rows, "commitmentdiscountname").fill_null(
            _first(rows, "commitmentdiscountid")
        ),
    })  # fmt: skip


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
    same hours: the fewest that any of them has, and never more than the period. What it is and how
    it was bought is what the dearest of them says.
    """
    length = (pl.col("end_ms") - pl.col("start_ms")) / HOUR_MS
    known = pl.coalesce("resource", "name")
    lone = pl.concat_str(pl.lit("row "), pl.col("row"))
    dearest = pl.col("type", "region", "commitment", "name").sort_by("usd", descending=True)
    return (
        billed.with_columns(
            machine=pl.coalesce(known, lone),
            is_named=known.is_not_null(),
            period=pl.col("start_ms").fill_null(-pl.col("row")),
            hours=pl.when(length > 0).then(pl.min_horizontal("hours", length)).otherwise("hours")
            if billed["start_ms"].null_count() < len(billed)
            else pl.col("hours"),
        )
        .group_by("machine", "is_named", "period", maintain_order=True)
        .agg(
            pl.col("usd").sum(), pl.col("hours").min(), pl.col("row").min(),
            pl.col("terms").sort_by("usd", descending=True).first(),
            dearest.drop_nulls().first(),
        )
    )  # fmt: skip


def _of_machines(machines: pl.DataFrame) -> list[PriceLine]:
    """One line per machine: its mean rate, under the terms that most of its hours had."""
    found = list[PriceLine]()
    known = machines.filter(pl.col("is_named"))
    for (_,), some in known.group_by("machine", maintain_order=True):
        most = some.sort("hours", descending=True).row(0, named=True)
        hours, usd = float(some["hours"].sum()), float(some["usd"].sum())
        names = {labels.tail(n) for n in (most["machine"], most["name"]) if n}
        found.append(
            PriceLine(
                most["row"],
                frozenset(names),
                terms=most["terms"],
                commitment=most["commitment"] or "",
                node_usd_micro=max(0, round(usd / hours * 1_000_000)),
            )
        )
    return found


def _of_types(machines: pl.DataFrame) -> list[PriceLine]:
    """One line per instance type and region: the mean rate of its machines."""
    found = list[PriceLine]()
    known = machines.filter(pl.col("type").is_not_null())
    for (kind, region), some in known.group_by("type", "region", maintain_order=True):
        hours, usd = float(some["hours"].sum()), float(some["usd"].sum())
        found.append(
            PriceLine(
                some["row"].item(0),
                type=str(kind),
                region=str(region or ""),
                node_usd_micro=max(0, round(usd / hours * 1_000_000)),
            )
        )
    return found
