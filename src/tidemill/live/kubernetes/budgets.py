"""Disruption budgets: how many pods of those that they select may be evicted now."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct

from tidemill.live.kubernetes import fields
from tidemill.live.kubernetes.fields import Object
from tidemill.live.kubernetes.pods import KubePod, label_condition
from tidemill.model.measures import count_text
from tidemill.model.node_rules import LabelCondition, LabelTest


class Budget(Struct, frozen=True):
    """A PodDisruptionBudget, and how many of its pods it lets go now."""

    namespace: str
    name: str
    conditions: tuple[LabelCondition, ...]
    """All of which the labels of its pods keep; none: it selects every pod of the namespace."""
    has_selector: bool
    allowed: int | None
    """None: its controller has not said yet, and the API server lets nobody go until it has."""

    @property
    def words(self) -> str:
        """What it is, and what it is called."""
        return f"the PodDisruptionBudget `{self.namespace}/{self.name}`"

    @property
    def allows(self) -> bool:
        """Whether it lets any of its pods go."""
        return self.allowed != 0

    def selects(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """Whether it is about a pod."""
        if namespace != self.namespace or not self.has_selector:
            return False
        return all(one.holds(labels.get(one.key)) for one in self.conditions)


class Shortfall(NamedTuple):
    """A budget that does not let all of some pods go."""

    budget: Budget
    wanted: int

    @property
    def words(self) -> str:
        """As people read it."""
        allowed = self.budget.allowed or 0
        return (
            f"{self.budget.words} lets {allowed} of {count_text(self.wanted, 'pod')} go"
            " that would have to"
        )


def read(one: Object) -> Budget:
    """A PodDisruptionBudget."""
    selector = fields.inner(one, "spec", "selector")
    labels = fields.words(selector, "matchLabels")
    conditions = [LabelCondition(key, LabelTest.IN, (labels[key],)) for key in sorted(labels)]
    conditions += map(label_condition, fields.each(selector, "matchExpressions"))
    made, seen = (
        fields.number(one, *way) for way in (("metadata", "generation"),
                                             ("status", "observedGeneration"))
    )  # fmt: skip
    is_said = made is None or seen is None or seen >= made
    return Budget(
        fields.text(one, "metadata", "namespace") or "default",
        fields.text(one, "metadata", "name"), tuple(conditions),
        "selector" in fields.inner(one, "spec"),
        fields.number(one, "status", "disruptionsAllowed") if is_said else None,
    )  # fmt: skip


def needs(pod: KubePod) -> bool:
    """Whether the API server asks a budget before it evicts a pod: not of those that do not run."""
    return bool(pod.node) and pod.phase == "Running" and pod.leaves_ms is None


def shortfall(budgets: Iterable[Budget], pods: Sequence[KubePod]) -> Shortfall | None:
    """The first budget that does not let all of these pods go at once; None: all may go."""
    for budget in budgets:
        mine = sum(needs(pod) and budget.selects(pod.namespace, pod.labels) for pod in pods)
        if mine > (budget.allowed or 0):
            return Shortfall(budget, mine)
    return None
