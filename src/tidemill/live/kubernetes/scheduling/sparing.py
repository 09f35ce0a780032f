"""Whom the cluster lets nobody stop now: jobs that a disruption budget would leave in part.

Gangs leave whole or stay whole. So a job is spared as long as a budget does not let all of its pods
go at once, and for a while after the API server refused one of them whatever the budgets said.
"""

import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

from tidemill.live.kubernetes import budgets
from tidemill.live.kubernetes.jobs import UnitKey
from tidemill.live.kubernetes.pods import KubePod
from tidemill.live.kubernetes.scheduling.view import ClusterView

AGAIN_S, LONGEST_S = 15.0, 600.0
"""After a refusal a job is asked to leave again not before this, and twice as long each time."""


class _NotLetGo(NamedTuple):
    until: float
    lasts_s: float
    by: str


class Spared:
    """The jobs that must not be stopped, by what changed since somebody last asked."""

    def __init__(self, view: ClusterView) -> None:
        self._view = view
        self._by_budget: dict[UnitKey, str] = {}
        """By which of them."""
        self._refused: dict[UnitKey, _NotLetGo] = {}

    def refused(self, unit: UnitKey, by: str) -> None:
        """A pod of this job was not let go, by whom."""
        before = self._refused.get(unit)
        lasts_s = AGAIN_S if before is None else min(2 * before.lasts_s, LONGEST_S)
        self._refused[unit] = _NotLetGo(time.monotonic() + lasts_s, lasts_s, by)

    def look(self, units: Iterable[UnitKey], namespaces: Iterable[str]) -> None:
        """Ask the budgets about these jobs, and about all in namespaces whose budgets changed."""
        some = {*namespaces}
        again = dict.fromkeys(units)
        if some:
            again |= dict.fromkeys(unit for unit in self._view.units() if unit.namespace in some)
        for unit in again:
            self._ask(unit)

    def _ask(self, unit: UnitKey) -> None:
        mine = self._view.budgets_of(unit.namespace)
        pods = alive(self._view.unit_pods(unit)) if mine or unit in self._refused else []
        if not pods:  # it is over, or nothing was ever said of it
            self._refused.pop(unit, None)
        if mine and (short := budgets.shortfall(mine, pods)) is not None:
            self._by_budget[unit] = short.budget.words
        else:
            self._by_budget.pop(unit, None)

    def jobs(self, number: Callable[[UnitKey], int | None]) -> dict[int, str]:
        """Those that must not be stopped, by their numbers, and what keeps them."""
        now = time.monotonic()
        found = {unit: one.by for unit, one in self._refused.items() if one.until > now}
        found |= self._by_budget
        return {j: by for unit, by in found.items() if (j := number(unit)) is not None}


def alive(pods: Iterable[KubePod]) -> list[KubePod]:
    """Pods that have not ended."""
    return [pod for pod in pods if not pod.is_over]
