"""Pods whose place depends on others: those with rules about pods, and those with volumes."""

from tidemill.live.kubernetes.jobs import UnitKey
from tidemill.live.kubernetes.pod_rules import RuleKind
from tidemill.live.kubernetes.pods import KubePod

Key = tuple[str, str]
"""Namespace and name."""


class RuledPods:
    """Which pods have rules, so that others cost nothing."""

    def __init__(self) -> None:
        self.units: dict[UnitKey, None] = {}
        """Jobs of ours whose pods have rules about other pods."""
        self.port_units: dict[UnitKey, None] = {}
        """Those that only take ports of their nodes."""
        self.on_ports: dict[Key, None] = {}
        """Pods of anybody's that are bound, and have such ports."""
        self.apart: dict[Key, None] = {}
        """Pods of anybody's that are bound, and keep others away."""
        self.with_volumes: dict[Key, None] = {}
        """Pods of ours that have volumes, and wait."""

    def take(self, key: Key, pod: KubePod, *, is_ours: bool, is_gone: bool) -> bool:
        """A pod came, changed or is gone; whether it keeps others away, or does so no more."""
        if pod.request.volumes and is_ours:
            _put(self.with_volumes, key, is_so=pod.is_pending and not is_gone)
        if not pod.request.near and key not in self.apart and key not in self.on_ports:
            return False
        is_there = bool(pod.node) and not pod.is_over and not is_gone
        keeps_away = is_there and any(rule.kind is RuleKind.APART for rule in pod.request.near)
        _put(self.on_ports, key, is_so=is_there and bool(pod.request.ports))
        is_news = keeps_away != (key in self.apart)  # it may be another pod of its name
        _put(self.apart, key, is_so=keeps_away)
        return is_news

    def file(self, unit: UnitKey, pod: KubePod) -> None:
        """A job of ours has a pod with rules."""
        is_of_ports = all(rule.port for rule in pod.request.near)
        (self.port_units if is_of_ports else self.units)[unit] = None

    def unfile(self, unit: UnitKey) -> None:
        """A job is no more."""
        self.units.pop(unit, None)
        self.port_units.pop(unit, None)

    def named_by(self, pod: KubePod) -> tuple[UnitKey, ...]:
        """Jobs whose rules may name a pod."""
        return (*self.units, *(self.port_units if pod.request.ports else ()))


def names(whose: KubePod, other: KubePod) -> bool:
    """Whether a rule of a pod names another."""
    return any(rule.names(whose.namespace, other) for rule in whose.request.near)


def _put(known: dict[Key, None], key: Key, *, is_so: bool) -> None:
    if is_so:
        known[key] = None
    else:
        known.pop(key, None)
