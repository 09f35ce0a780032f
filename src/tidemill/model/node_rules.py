"""Which nodes work may be on: labels that it requests, taints that it tolerates, node affinity.

A taint keeps everybody off a node who does not tolerate it. Affinity is any of several choices,
each of which is conditions that all hold. The words are those of Kubernetes, the rules for any
fleet.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated, Literal, NamedTuple

from msgspec import Meta, Struct

Pair = tuple[str, str]
"""A label or a taint: key and value."""
MOST_CONDITIONS = 64
ANY = ""
"""As the value of a toleration: any value. As its key: every taint."""
EVERY_TAINT = (ANY, ANY)
SAID = " "
"""How a value begins that is of no label, and says why a scheduler of ours added a condition: what
keeps work off nodes for now is then told as that, and not as what somebody requests."""


class LabelTest(StrEnum):
    """How a condition looks at the value of a label."""

    IN = "in"
    NOT_IN = "not_in"
    EXISTS = "exists"
    ABSENT = "absent"
    ABOVE = "above"
    BELOW = "below"


class LabelCondition(Struct, frozen=True, forbid_unknown_fields=True):
    """What the label of a node must be like."""

    key: Annotated[str, Meta(min_length=1, max_length=400)]
    test: LabelTest
    values: Annotated[tuple[str, ...], Meta(max_length=1_000)] = ()

    def holds(self, value: str | None) -> bool:
        """Whether a value is so; None: the node has no such label."""
        match self.test:
            case LabelTest.IN:
                return value in self.values
            case LabelTest.NOT_IN:
                return value not in self.values
            case LabelTest.EXISTS:
                return value is not None
            case LabelTest.ABSENT:
                return value is None
            case LabelTest.ABOVE:
                return _is_between(self.values, value, None)
            case LabelTest.BELOW:
                return _is_between((), value, self.values)

    @property
    def flaw(self) -> str:
        """Why it can mean nothing, in words; "": it can."""
        match self.test:
            case LabelTest.IN | LabelTest.NOT_IN:
                return "" if self.values else "needs values"
            case LabelTest.EXISTS | LabelTest.ABSENT:
                return "takes no values" if self.values else ""
            case LabelTest.ABOVE | LabelTest.BELOW:
                is_number = len(self.values) == 1 and _is_whole(self.values[0])
                return "" if is_number else "needs one whole number"

    @property
    def words(self) -> str:
        """As people say it: ```zone` in `a`, `b```."""
        named = ", ".join(f"`{value}`" for value in self.values if not value.startswith(SAID))
        return f"`{self.key}` {self.test.replace('_', ' ')} {named}".rstrip()

    @property
    def said(self) -> str:
        """Why a scheduler of ours added it; "": it is requested."""
        return next((one.removeprefix(SAID) for one in self.values if one.startswith(SAID)), "")


def added(
    key: str, test: Literal[LabelTest.IN, LabelTest.NOT_IN], values: Iterable[str], said: str
) -> LabelCondition:
    """A condition that nobody requests; ``said``: why it holds for now."""
    return LabelCondition(key, test, (*sorted(values), f"{SAID}{said}"))


Choice = Annotated[tuple[LabelCondition, ...], Meta(max_length=MOST_CONDITIONS)]
Affinity = Annotated[tuple[Choice, ...], Meta(max_length=MOST_CONDITIONS)]


class NodeRules(NamedTuple):
    """All of it together; two roles with equal rules may use the same nodes."""

    labels: tuple[Pair, ...] = ()
    tolerates: tuple[Pair, ...] = ()
    affinity: tuple[tuple[LabelCondition, ...], ...] = ()

    def allow(self, labels: frozenset[Pair], taints: frozenset[Pair] = frozenset()) -> bool:
        """Whether a node with these labels and taints may be used."""
        return not self.broken_by(labels, taints)

    def broken_by(
        self, labels: frozenset[Pair], taints: frozenset[Pair] = frozenset()
    ) -> Literal["", "labels", "taints", "affinity"]:
        """The first rule that keeps it off a node with these labels and taints; none: it may be."""
        if not all(pair in labels for pair in self.labels):
            return "labels"
        if taints and self.repelled_by(taints):
            return "taints"
        return "affinity" if self.affinity and self.misses(labels) else ""

    def repelled_by(self, taints: Iterable[Pair]) -> list[Pair]:
        """The taints that are not tolerated."""
        return sorted(pair for pair in taints if not any(_accepts(t, pair) for t in self.tolerates))

    def misses(self, labels: Iterable[Pair]) -> bool:
        """Whether none of the choices of its affinity holds."""
        values = dict(labels)
        return bool(self.affinity) and not any(
            all(one.holds(values.get(one.key)) for one in choice) for choice in self.affinity
        )

    @property
    def keys(self) -> set[str]:
        """The labels that it looks at."""
        return {key for key, _ in self.labels} | {
            one.key for choice in self.affinity for one in choice
        }

    @property
    def own(self) -> "NodeRules":
        """What is requested of it, without what a scheduler of ours added."""
        if not any(one.said for choice in self.affinity for one in choice):
            return self
        choices = [tuple(one for one in choice if not one.said) for choice in self.affinity]
        return self._replace(affinity=tuple(choices) if all(choices) else ())

    def said_of(self, labels: Iterable[tuple[str, str]]) -> list[str]:
        """Why conditions were added that keep it off a node with these labels."""
        known = dict(labels)
        every = (one for choice in self.affinity for one in choice if one.said)
        return [*dict.fromkeys(one.said for one in every if not one.holds(known.get(one.key)))]

    @property
    def affinity_words(self) -> str:
        """Its affinity as people say it."""
        choices = (" and ".join(one.words for one in choice) for choice in self.affinity)
        return ", or ".join(choices)


def _accepts(toleration: Pair, taint: Pair) -> bool:
    key, value = toleration
    return key in (ANY, taint[0]) and value in (ANY, taint[1])


def _is_whole(text: str) -> bool:
    return text.removeprefix("-").isdecimal()


def _is_between(low: tuple[str, ...], value: str | None, high: tuple[str, ...] | None) -> bool:
    """Whether a number is above the one or below the other; what is no number is neither."""
    try:
        found = int(value or "")
        return found > int(low[0]) if high is None else found < int(high[0])
    except (ValueError, IndexError):
        return False
