"""Price files: a table of one's own, or what a provider bills in FOCUS columns."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import polars as pl

from tidemill.live.csv import files as csv_files
from tidemill.live.csv import headers, tables, times
from tidemill.live.csv.cells import CellFaults
from tidemill.live.prices import commitments, currencies, focus, labels
from tidemill.live.prices.commitments import Commitment
from tidemill.live.prices.matching import PriceLine
from tidemill.model.errors import SpecError
from tidemill.model.measures import FOREVER_MS, WHOLE_MILLI
from tidemill.model.states import Terms

COLUMNS: dict[str, tuple[str, ...]] = {
    "node": ("node", "host", "hostname", "machine", "resourceid", "instanceid"),
    "type": ("instancetype", "type", "gputype", "machinetype", "servertype", "vmsize", "gpumodel",
             "sku"),
    "region": ("region", "regionid", "location"),
    "provider": ("provider", "providername", "cloud", "vendor"),
    "commitment": ("commitment", "terms", "term", "pricing", "purchaseoption", "capacitytype",
                   "offer"),
    "start": ("start", "from", "startdate", "since", "begin"),
    "end": ("end", "to", "until", "enddate", "expires"),
    "usd_per_gpu_hour": ("usdpergpuhour", "gpuhour", "pergpuhour", "rategpuhour", "usdpergpuh",
                         "usdperhour", "rate", "price"),
    "usd_per_instance_hour": ("usdperinstancehour", "instancehour", "perinstancehour",
                              "usdpernodehour", "nodehour", "pernodehour", "usdperinstanceh"),
    "committed_gpus": ("committedgpus", "reservedgpus", "gpuscommitted", "gpusreserved"),
    "committed_nodes": ("committednodes", "reservednodes", "committedinstances",
                        "reservedinstances", "nodescommitted", "nodesreserved"),
    "currency": headers.CURRENCY,
}  # fmt: skip
"""What a table of prices may say, and what people call it."""
_PRICES = ("usd_per_gpu_hour", "usd_per_instance_hour")
_COUNTS = ("committed_gpus", "committed_nodes")
_MOST = 10_000_000
"""GPUs or nodes under one commitment: more than there are."""


class PriceFile(NamedTuple):
    """A price file as it was understood."""

    lines: tuple[PriceLine, ...]
    notes: tuple[str, ...]
    source: str
    """What the ledger calls it."""
    is_bill: bool = False
    """Whether a provider made it, of all that it bills."""
    commitments: tuple[Commitment, ...] = ()
    """What it pays for whether machines are there or not."""


def read(path: Path, zone: str) -> PriceFile:
    """The lines of a price file; whether it is FOCUS is told by its columns."""
    rows, said = csv_files.read(path)
    if focus.is_focus(rows.columns):
        bill, source = focus.read(rows, path), f"`{path.name}` (billed, FOCUS)"
        unused = tuple(one._replace(source=source) for one in bill.unused)
        return PriceFile(bill.lines, (*said, *bill.notes), source, True, unused)
    found = headers.match(rows.columns, COLUMNS, {})
    currencies.refuse_columns(rows.columns, (name for field in _PRICES for name in COLUMNS[field]),
                              path)  # fmt: skip
    if not {*_PRICES} & {*found}:
        raise SpecError(
            f"`{path}` has no column with a price; its columns are {', '.join(rows.columns)}",
            hint="call it usd_per_gpu_hour or usd_per_instance_hour, or give FOCUS columns"
            " (EffectiveCost, PricingQuantity, …)",
        )
    if "currency" in found:
        currencies.refuse_others(rows[found["currency"]], f"`{path}` has prices in")
    told = ", ".join(f"{field} = `{column}`" for field, column in found.items())
    notes = (*said, f"prices: {told}")
    lines, source = _lines(rows, found, path, zone), f"`{path.name}`"
    counted = _commitments(lines, rows, found, path)
    titles = {one.number: one.title for one in counted}
    lines = tuple(line._replace(fills=titles.get(line.number, "")) for line in lines)
    counted = [one._replace(source=source) for one in counted]
    return PriceFile(lines, notes, source, commitments=tuple(counted))


def _commitments(
    lines: Sequence[PriceLine], rows: pl.DataFrame, found: Mapping[str, str], path: Path
) -> list[Commitment]:
    """What lines pay for that say how many GPUs or nodes they are of."""
    counts = {
        name: _counts(rows[found[name]], found[name]).to_list() for name in _COUNTS if name in found
    }
    edges = {ms for line in lines for ms in (line.starts_ms, line.ends_ms) if ms is not None}
    made = list[Commitment]()
    for i, line in enumerate(lines):
        gpus, nodes = (counts[name][i] if name in counts else None for name in _COUNTS)
        if gpus is None and nodes is None:
            continue
        where = f"`{path}` row {line.number}"
        if gpus is not None and nodes is not None:
            raise SpecError(f"{where} has a number of GPUs and one of nodes", hint="give it one")
        if line.terms != Terms.RESERVED.value:
            raise SpecError(
                f"{where} says how many are paid for, and under no commitment",
                hint="name the reservation in a column `commitment`, or leave the number out: what"
                " is on demand is paid while it is there",
            )
        if not line.type:
            raise SpecError(
                f"{where} says how many are paid for, and not of what",
                hint="give it a `type`: a GPU type (H100) or an instance type (p5.48xlarge)",
            )
        made.append(
            Commitment(
                line.number, line.commitment or "reserved", line.type, line.region,
                line.starts_ms or 0, FOREVER_MS if line.ends_ms is None else line.ends_ms,
                None if gpus is None else gpus * WHOLE_MILLI,
                None if nodes is None else nodes * WHOLE_MILLI, line.gpu_usd_micro,
                line.node_usd_micro, edges=tuple(sorted(edges)),
            )
        )  # fmt: skip
    return commitments.titled(made)


def _counts(texts: pl.Series, column: str) -> pl.Series:
    """Whole numbers of what is paid for; null where nothing is said."""
    given, hint = times.blank(texts), "a whole number, such as 64"
    number = tables.numbers(texts, column)
    is_bad = (number != number.round()) | (number < 1) | (number > _MOST)
    CellFaults().check(given, is_bad, column, "which is no number of what is paid for", hint)
    return number.cast(pl.Int64)


def _lines(
    rows: pl.DataFrame, found: Mapping[str, str], path: Path, zone: str
) -> tuple[PriceLine, ...]:
    empty = pl.Series([None] * len(rows), dtype=pl.String)
    text = {
        name: times.blank(rows[found[name]]).to_list() if name in found else empty.to_list()
        for name in ("node", "type", "region", "commitment")
    }
    moments = {
        name: times.moments_ms(rows[found[name]], zone, found[name])[0].to_list()
        if name in found
        else empty.to_list()
        for name in ("start", "end")
    }
    rates = {
        name: currencies.dollars(rows[found[name]], found[name]).to_list()
        if name in found
        else empty.to_list()
        for name in _PRICES
    }
    made = list[PriceLine]()
    for i in range(len(rows)):
        each, whole = rates["usd_per_gpu_hour"][i], rates["usd_per_instance_hour"][i]
        if wrong := _wrong(each, whole):
            raise SpecError(f"`{path}` row {i + 2} has {wrong[0]}", hint=wrong[1])
        start_ms, end_ms = moments["start"][i], moments["end"][i]
        if start_ms is not None and end_ms is not None and end_ms <= start_ms:
            raise SpecError(
                f"`{path}` row {i + 2} holds from `{rows[found['start']][i]}` to"
                f" `{rows[found['end']][i]}`, which is never",
                hint="give it an end after its start, or leave one of them out",
            )
        said = text["commitment"][i] or ""
        terms = labels.TERMS.get(labels.word(said), "reserved" if said else "")
        made.append(
            PriceLine(
                i + 2,
                frozenset({labels.named_in(text["node"][i])} if text["node"][i] else ()),
                text["type"][i] or "",
                text["region"][i] or "",
                terms,
                said if terms == "reserved" and labels.word(said) != "reserved" else "",
                moments["start"][i],
                moments["end"][i],
                None if each is None else round(each * 1_000_000),
                None if whole is None else round(whole * 1_000_000),
            )
        )
    return tuple(made)


def _wrong(each: float | None, whole: float | None) -> tuple[str, str] | None:
    """What is wrong with the prices of a line, and what helps; None: nothing."""
    one_of = "give each line one of usd_per_gpu_hour and usd_per_instance_hour"
    if each is None and whole is None:
        return "no price", one_of
    if each is not None and whole is not None:
        return "two prices", one_of
    return None
