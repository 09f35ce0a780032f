"""Rules that say what the GPUs of a node cost per hour; the first that knows a node prices it.

A rule is a function of a node. What none of them knows is unpriced: its hours count, its dollars
are unknown.
"""

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple

from tidemill.live.history.attempts import kind_of
from tidemill.live.history.rows import SeenNode, is_part
from tidemill.live.prices.commitments import Commitment
from tidemill.model.rows import UNPRICED

MOST_USD_MICRO = 10**13
"""Ten million dollars an hour: nobody pays that for a machine, and sums of it stay exact."""
ANY = ""
"""In flat rates: of every GPU type that has none of its own."""


class PricePeriod(NamedTuple):
    """What one GPU of a node costs per hour from a moment on."""

    from_ms: int
    """Since 1970."""
    usd_micro: int = UNPRICED
    source: str = ""
    bought: str | None = None
    """How it is bought then, in words; None: always in one way (``Price.commitment``)."""
    fills: str = ""
    """The commitment with a count that it fills then; "": none."""


class Price(NamedTuple):
    """What one GPU of a node costs per hour, and under which terms."""

    usd_micro: int = UNPRICED
    source: str = ""
    """Who said it, as the ledger prints it; "": the person who made the books."""
    terms: str = ""
    """How it is paid (``reservation.types``); "": as the source of the nodes has it."""
    commitment: str = ""
    """The name of what it is bought under: a reservation, a savings plan; "": nothing."""
    ends_ms: int | None = None
    """When that ends, in milliseconds since 1970; None: nobody said."""
    later: tuple[PricePeriod, ...] = ()
    """What it costs from later moments on, in their order."""
    bought: str | None = None
    """As of its periods."""
    fills: str = ""
    """The same."""

    @property
    def is_counted(self) -> bool:
        """Whether it fills a commitment with a count, at any time."""
        return any((self.fills, *(period.fills for period in self.later)))

    @property
    def is_known(self) -> bool:
        """Whether it is a price at all, at any time."""
        return any(usd != UNPRICED for usd in (self.usd_micro, *(p.usd_micro for p in self.later)))

    def at(self, at_ms: int) -> "Price":
        """The same as of a moment: what it costs then, and later."""
        begun = [period for period in self.later if period.from_ms <= at_ms]
        if not begun:
            return self
        now = begun[-1]
        return self._replace(
            usd_micro=now.usd_micro, source=now.source, later=self.later[len(begun) :],
            bought=now.bought, fills=now.fills,
        )  # fmt: skip

    def scaled(self, share: Fraction) -> "Price":
        """What such a share of a GPU costs."""

        def of(usd_micro: int) -> int:
            return UNPRICED if usd_micro == UNPRICED else round(usd_micro * share)

        later = tuple(one._replace(usd_micro=of(one.usd_micro)) for one in self.later)
        return self._replace(usd_micro=of(self.usd_micro), later=later)


UNKNOWN = Price()
PriceRule = Callable[[SeenNode], Price]


class PricedFleet:
    """A rule, beside what is paid for whether nodes are there or not."""

    def __init__(self, rule: PriceRule, commitments: tuple[Commitment, ...]) -> None:
        self.rule, self.commitments = rule, commitments

    def __call__(self, node: SeenNode) -> Price:
        """The price of a node."""
        return self.rule(node)


def commitments_of(rule: PriceRule) -> tuple[Commitment, ...]:
    """What is paid for beside nodes, as far as a rule was made with it."""
    return rule.commitments if isinstance(rule, PricedFleet) else ()


def flat(rates: Mapping[str, int]) -> PriceRule:
    """Micro-dollars per hour by GPU type; a price of all GPUs is none of parts of them."""

    def rule(node: SeenNode) -> Price:
        of_all = None if is_part(node.gpu_type) else rates.get(ANY)
        found = rates.get(kind_of(node.gpu_type), of_all)
        return UNKNOWN if found is None else Price(found)

    return rule


def unpriced(node: SeenNode) -> Price:  # noqa: ARG001 - a rule like others
    """The rule of whoever has no prices."""
    return UNKNOWN


def first_of(rules: Sequence[PriceRule]) -> PriceRule:
    """The price by the first rule that knows one."""

    def rule(node: SeenNode) -> Price:
        found = (one(node) for one in rules)
        return next((price for price in found if price.is_known), UNKNOWN)

    return rule
