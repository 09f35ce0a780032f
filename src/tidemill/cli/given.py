"""What people give beside the data of a cluster: prices, assumptions, and what nodes are for."""

import re
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from tidemill.cli import screen
from tidemill.model.errors import SpecError
from tidemill.model.measures import WHOLE_MILLI, amount_text, decimal_number
from tidemill.model.rows import UNPRICED

if TYPE_CHECKING:
    import polars as pl

    from tidemill.live.history.assuming import Assumptions
    from tidemill.live.history.gathered import GatheredRows
    from tidemill.live.history.intent import IntendedSpan, NodeIntent, RepeatedSpan
    from tidemill.live.history.rows import SeenNode
    from tidemill.live.prices.rules import PriceRule
    from tidemill.model.rows import Contract

PerHour = Annotated[
    list[str] | None,
    typer.Option(
        "--usd-per-hour",
        help="Price of one GPU: 2.50 for all, or H100=2.50; may be repeated. None: unknown.",
        metavar="[TYPE=]USD",
    ),
]
PriceFiles = Annotated[
    list[Path] | None,
    typer.Option(
        "--prices",
        help="A table of prices (type or node, usd_per_gpu_hour or usd_per_instance_hour, …), or"
        " a bill with FOCUS columns; may be repeated.",
        metavar="FILE",
    ),
]
ListPrices = Annotated[
    bool,
    typer.Option(
        "--list-prices",
        help="Price what nothing else prices by its instance type, as the catalogue lists it.",
    ),
]
Assumed = Annotated[
    list[str] | None,
    typer.Option(
        "--assume",
        help="A figure for jobs of which nothing was measured: training.mfu=0.35,"
        " training.checkpoint_interval=30m, …; may be repeated.",
        metavar="KEY=VALUE",
    ),
]


Spares = Annotated[
    list[str] | None,
    typer.Option(
        "--spares",
        help="Nodes kept free by design (hot spares, warm pools): names as Slurm folds them, `*`"
        " for anything: gpu[07-08], warm-*; for a time: warm-*@2026-11-01..2026-12-01, or"
        " 'warm-*@weekdays 08:00..18:00'; may be repeated.",
        metavar="NODES[@WHEN]",
    ),
]
Maintenance = Annotated[
    list[str] | None,
    typer.Option(
        "--maintenance",
        help="Nodes that are closed for maintenance, and when:"
        " gpu[01-04]@2026-11-20T06:00..2026-11-20T10:00, 'gpu*@daily 02:00..04:00' or"
        " 'gpu*@sun 22:00..04:00', by the clock of --zone; may be repeated.",
        metavar="NODES@WHEN",
    ),
]


class Given(NamedTuple):
    """Prices, assumptions and intent as typed: options of a command (``options.takes_groups``)."""

    usd_per_hour: PerHour = None
    prices: PriceFiles = None
    list_prices: ListPrices = False
    assume: Assumed = None
    spares: Spares = None
    maintenance: Maintenance = None
    by_type: Mapping[str, int] | None = None
    """Prices by GPU type that a table of nodes says."""

    def price_rule(self, zone: str, window_ms: tuple[int, int]) -> "PriceRule":
        """What a node costs: by the price files, then by flat rates, then by list prices."""
        from tidemill.live.prices import files, listed, matching, rules
        from tidemill.live.prices.commitments import Commitment

        made, paid = list["PriceRule"](), dict[str, list[Commitment]]()
        for path in self.prices or ():
            found = files.read(path, zone)
            for text in found.notes:
                screen.note(f"`{path.name}`: {text}")
            rule = matching.rule_of(found.lines, window_ms, found.source, is_bill=found.is_bill)
            made.append(rule)
            here = dict[str, list[Commitment]]()
            for one in found.commitments:
                here.setdefault(one.title, []).append(one)
            for title in here.keys() & paid.keys():
                screen.note(f"`{path.name}`: how much {title} is of is said by a file before it")
            paid = here | paid
        rates = {**(self.by_type or {}), **prices_of(self.usd_per_hour or ())}
        made.append(rules.flat(rates))
        if self.list_prices:
            made.append(listed.rule())
        return rules.PricedFleet(
            rules.first_of(made), tuple(one for some in paid.values() for one in some)
        )

    def unmet(self, zone: str, nodes: Iterable["SeenNode"], kinds: Iterable[str]) -> list[str]:
        """Types and machines in price files that no node is, and lines that say otherwise than a
        node's label how it is bought: in words.
        """
        from tidemill.live.prices import files, labels, matching

        some = list(nodes)
        gpus = {*kinds, *(node.gpu_type for node in some)}
        machines = {labels.plain(labels.instance_type(node)) for node in some}
        found = list[str]()
        for path in self.prices or ():
            told = files.read(path, zone)
            lost = matching.unmet(told.lines, gpus, machines)
            if told.is_bill or not gpus:
                continue
            if lost:
                there = ", ".join(f"`{name}`" for name in sorted({*kinds})[:5])
                found.append(f"`{path.name}`: no node is of type {_few(lost)}; nodes have {there}")
            if some and (lost := matching.unmet_nodes(told.lines, some)):
                found.append(f"`{path.name}`: no node that is listed is called {_few(lost)}")
            against = matching.said_against_labels(told.lines, some)
            more = f", and {len(against) - 5:,} more such rows" if len(against) > 5 else ""
            found += [f"`{path.name}`: {text}" for text in against[:4]]
            found += [f"`{path.name}`: {text}{more}" for text in against[4:5]]
        return found

    def unheard(self, kinds: Iterable[str]) -> str:
        """That prices were given of GPU types that no node has, in words; "": none were."""
        known = sorted({*kinds})
        lost = sorted({*prices_of(self.usd_per_hour or ())} - {"", *known})
        if not lost or not known:
            return ""
        names = ", ".join(f"`{kind}`" for kind in lost)
        there = ", ".join(f"`{kind}`" for kind in known[:5])
        return f"--usd-per-hour prices {names}, which no node has; nodes have {there}"

    def intent(self, zone: str) -> "NodeIntent":
        """What is intended with nodes, and when; dates without a zone are of this one."""
        from tidemill.live.history.intent import IntendedSpan, NodeIntent

        spares = [_span(text, zone, "--spares") for text in self.spares or ()]
        closed = [_span(text, zone, "--maintenance") for text in self.maintenance or ()]
        for text, span in zip(self.maintenance or (), closed, strict=True):
            if isinstance(span, IntendedSpan) and (not span.from_ms or span.to_ms is None):
                raise SpecError(
                    f"--maintenance is `{text}`, which does not say from when to when",
                    hint="such as gpu[01-04]@2026-11-20T06:00..2026-11-20T10:00, or"
                    " 'gpu*@daily 02:00..04:00'",
                )
        return NodeIntent(tuple(spares), tuple(closed))

    def assumptions(self) -> "Assumptions":
        """What is assumed; said, so that nobody takes it for measured."""
        from tidemill.live.history import assuming

        found = assuming.read(self.assume or ())
        if found.words:
            screen.note(f"assumed of every job of which it was not measured: {found.words}")
        return found


def _few(names: Sequence[str]) -> str:
    more = f" and {len(names) - 5:,} more" if len(names) > 5 else ""
    return ", ".join(f"`{name}`" for name in names[:5]) + more


NOTHING = Given()


def _span(text: str, zone: str, option: str) -> "IntendedSpan | RepeatedSpan":
    """``gpu[07-08]``, ``warm-*@2026-11-01..2026-12-01`` with either end left out, or
    ``warm-*@weekdays 08:00..18:00``.
    """
    from tidemill.cli.imports import moment_ms
    from tidemill.live.history.intent import IntendedSpan, RepeatedSpan
    from tidemill.live.slurm import hostlists

    names, at, when = text.partition("@")
    start, dots, stop = when.partition("..")
    if at and (not dots or not when.strip(".")):
        raise SpecError(
            f"{option} is `{text}`, of which `{when}` is no stretch of time",
            hint="such as 2026-11-01..2026-12-01, 2026-11-01.. for good, or 'daily 02:00..04:00'",
        )
    try:
        expanded = hostlists.expand(names)
    except ValueError as error:
        raise SpecError(
            f"{option}: {error}", hint="such as gpu[07-08],warm-*, with names of nodes"
        ) from error
    days, space, first = start.strip().rpartition(" ")
    if space:
        clock = (_minutes(first, text, option), _minutes(stop.strip(), text, option))
        return RepeatedSpan(expanded, _days(days.strip().lower(), text, option), *clock, zone)
    from_ms, to_ms = (moment_ms(part or None, zone, option) for part in (start, stop))
    if from_ms is not None and to_ms is not None and to_ms <= from_ms:
        raise SpecError(f"{option} is `{text}`, which ends before it begins", hint="swap the dates")
    return IntendedSpan(expanded, from_ms or 0, to_ms)


_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_NAMED_DAYS = {"daily": "mon-sun", "weekdays": "mon-fri", "weekends": "sat-sun"}


def _days(told: str, text: str, option: str) -> frozenset[int]:
    """``daily``, ``weekdays``, ``weekends``, ``sun``, ``mon,wed`` or ``fri-mon``."""
    found = set[int]()
    for part in _NAMED_DAYS.get(told, told).split(","):
        first, _, last = part.strip().partition("-")
        if first not in _DAYS or (last or first) not in _DAYS:
            raise SpecError(
                f"{option} is `{text}`, of which `{part.strip()}` is no day of the week",
                hint=f"daily, weekdays, weekends, or of: {', '.join(_DAYS)} (mon,wed or mon-fri)",
            )
        start = _DAYS.index(first)
        length = (_DAYS.index(last or first) - start) % 7 + 1
        found |= {(start + i) % 7 for i in range(length)}
    return frozenset(found)


def _minutes(told: str, text: str, option: str) -> int:
    """``02:30`` as minutes after midnight; ``24:00`` is the end of the day."""
    hour, colon, minute = told.partition(":")
    if colon and hour.isdecimal() and minute.isdecimal() and len(minute) == 2:
        found = 60 * int(hour) + int(minute)
        if int(minute) < 60 and found <= 24 * 60:
            return found
    raise SpecError(
        f"{option} is `{text}`, of which `{told}` is no time of day",
        hint="such as 'gpu*@daily 02:00..04:00', from 00:00 to 24:00",
    )


def window_of(
    attempts: "pl.DataFrame | GatheredRows", start_ms: int | None, end_ms: int | None
) -> tuple[int, int]:
    """The time that prices are asked for: the window, or that of the attempts."""
    from tidemill.live.history.gathered import GatheredRows

    names = ("submit_ms", "start_ms", "end_ms")
    tables = attempts.each(*names) if isinstance(attempts, GatheredRows) else [attempts]
    times = [
        ms
        for part in tables
        for name in names
        if name in part.columns
        for ms in (part[name].min(), part[name].max())
        if isinstance(ms, int)
    ]
    first = min(times, default=0) if start_ms is None else start_ms
    return first, max(times, default=first) if end_ms is None else end_ms


def say_prices(contracts: Iterable["Contract"]) -> None:
    """How many GPUs were priced by which rule."""
    from tidemill.reservation.types import UNFILLED

    found, rest, bare = dict[str, Fraction](), list[str](), list[str]()
    for row in contracts:
        if row.terms == UNFILLED:
            rest.append(f"`{row.name}`")
            continue
        said = [price for price in row.prices if price.usd_micro_per_hour != UNPRICED]
        who = (said[0].price_source or "the rate that was given") if said else ""
        bare += [] if who else [row.name]
        who += f" ({len(said)} prices in their time)" if len(said) > 1 else ""
        found[who] = found.get(who, Fraction(0)) + row.exactly_in_gpus(row.count * WHOLE_MILLI)
    told = [f"{_gpus(milli)} by {who}" for who, milli in found.items() if who]
    if without := found.get(""):
        names = sorted({*bare})
        named = ", ".join(f"`{name}`" for name in names[:5]) + " …" * (len(names) > 5)
        told.append(f"{_gpus(without)} without a price ({named})")
    screen.note(f"prices: {', '.join(told)}")
    if rest:
        more = " …" if len(rest) > 5 else ""
        screen.note(f"paid for whether nodes are there or not: {', '.join(rest[:5])}{more}")


def _gpus(exact: Fraction) -> str:
    milli = round(exact)
    return amount_text(milli, "GPU")


_DECIMAL_COMMA = re.compile(r"(?<![\w.])(\d+), *(\d[\d.]*) *(?=,|$)")
"""A price without a fraction, and after a comma another one for no GPU type."""


def _with_point(text: str, comma: re.Match[str]) -> str:
    """``H100=2,50`` as ``H100=2.50``, and ``1,200.50`` as ``1200.50``."""
    point = "" if "." in comma[2] else "."
    return f"{text[: comma.start()]}{comma[1]}{point}{comma[2]}{text[comma.end() :]}"


def prices_of(told: Sequence[str]) -> Mapping[str, int]:
    """``2.50``, or ``H100=2.50,A100=1.60``; micro-dollars by GPU type."""
    from tidemill.live.history.attempts import kind_of
    from tidemill.live.prices import currencies
    from tidemill.live.prices.rules import ANY, MOST_USD_MICRO

    found: dict[str, int] = {}
    for text in told:
        if comma := _DECIMAL_COMMA.search(text):
            raise SpecError(
                f"--usd-per-hour is `{text}`: a comma stands between prices here, and `{comma[0]}`"
                " looks like one price with a decimal comma",
                hint=f"write {_with_point(text, comma)}; several prices name their GPU types:"
                " H100=2.50,A100=1.60",
            )
    for part in (part.strip() for text in told for part in text.split(",")):
        kind, sign, usd = part.rpartition("=")
        if other := currencies.other_in(usd):
            raise SpecError(f"--usd-per-hour is `{part}`, in {other}", hint=currencies.CONVERT)
        try:
            micro = round(decimal_number(currencies.bare(usd)) * 1_000_000)
        except ValueError:
            micro = -1
        if not 0 <= micro <= MOST_USD_MICRO or (sign and not kind):
            raise SpecError(
                f"--usd-per-hour is `{part}`, which is no price",
                hint="such as 2.50, or H100=2.50 for one GPU type",
            )
        named = kind_of(kind) if sign else ANY
        if found.get(named, micro) != micro:
            raise SpecError(
                f"--usd-per-hour gives {f'`{named}`' if sign else 'all GPUs'} two prices",
                hint="one price for each GPU type; prices that change go into a file (--prices)",
            )
        found[named] = micro
    return found
