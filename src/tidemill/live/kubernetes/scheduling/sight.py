"""Whether a scheduler knows its cluster as it is now; where it does not, nothing is planned.

Pods and nodes have to be watched, and devices where those are read. A kind that was read, and may
not be any more, is stale from then on: pods of a gang would be placed by what it was. What may not
be read from the beginning is unknown, and was never counted on. A server that says nothing at all,
and does not answer either (``pulse``), shows nothing as it is now.
"""

from collections.abc import Iterator, Mapping

from tidemill.live.kubernetes.scheduling.answers import Log
from tidemill.live.kubernetes.scheduling.pulse import ServerPulse
from tidemill.live.kubernetes.watching import kinds
from tidemill.live.kubernetes.watching.kind_copy import KindCopy, WatchState
from tidemill.live.kubernetes.watching.kinds import ServedKind
from tidemill.live.kubernetes.watching.mirror import ClusterCopy

BLIND = "nothing is planned meanwhile; kubectl get --raw /readyz asks the same server"
LACKS = "nothing is planned meanwhile; deploy/kubernetes/{files} has the rules"
BESIDE = "it goes on without them; those that may be listed are, now and then"
_SAID_ALONE = ("ConfigMap", "Event", "NodeClaim", "ResourceQuota")
"""Kinds that decide nothing here."""


class ClusterSight:
    """What is known of a cluster as it is now."""

    def __init__(self, copy: ClusterCopy, pulse: ServerPulse, log: Log) -> None:
        self._copy, self._pulse, self._log = copy, pulse, log
        self._sees = True
        self._missed, self._beside = set[ServedKind](), set[ServedKind]()
        """Kinds that may not be read or watched, as they were told: those that are needed, and
        those without which it goes on."""

    @property
    def is_watching(self) -> bool:
        """Whether all is known as it is now that plans are made of."""
        return next(self.unwatched(), None) is None

    def unwatched(self) -> Iterator[str]:
        """What is not, and why."""
        copies = self._copy.copies
        if said := self._silence:
            yield said
        for kind in (kinds.PODS, kinds.NODES):
            if kind not in copies:
                yield f"{kind.shown}: the server has none"
        for kind, one in copies.items():
            if not _is_known(kind, one):
                yield f"{kind.shown}: {one.said or one.state}"

    @property
    def _silence(self) -> str:
        silent_s = self._pulse.silent_s
        return f"the API server has said nothing for {silent_s:.0f} s" if silent_s else ""

    @property
    def missing_rules(self) -> list[str]:
        """What has to be allowed so that plans are made again."""
        return [kind.rule for kind in self._missing]

    @property
    def why_not_ready(self) -> str:
        """Why nothing is planned, in one line; "": plans are made."""
        if self.is_watching:
            return ""
        if not (missing := self._missing):
            said = self._silence
            return f"pods and nodes are not watched{f': {said}' if said else ''}"
        shown = ", ".join(kind.shown for kind in missing)
        return f"may not read or watch {shown}; missing rule: {'; '.join(self.missing_rules)}"

    def note(self) -> None:
        """What is not watched is told when that changes, with the rules that lack."""
        is_watching, missing = self.is_watching, {*self._missing}
        if is_watching != self._sees or missing - self._missed:
            if is_watching:
                self._log("watching again")
            else:
                self._tell_blind()
        self._sees, self._missed = is_watching, set() if is_watching else self._missed | missing
        beside = [kind for kind in self._lacking() if kind not in missing]
        if {*beside} - self._beside:
            self._log("may not read or watch", missing_rules=[kind.rule for kind in beside],
                      hint=BESIDE)  # fmt: skip
        self._beside = {*beside}

    def _tell_blind(self) -> None:
        told: dict[str, object] = {"said": "; ".join(self.unwatched()), "hint": BLIND}
        if missing := self._missing:
            files = " and ".join(sorted({kind.manifest for kind in missing}))
            told |= {"missing_rules": self.missing_rules, "hint": LACKS.format(files=files)}
        self._log("not watching", **told)

    @property
    def _missing(self) -> list[ServedKind]:
        """Kinds that have to be allowed so that plans are made again."""
        return [kind for kind, one in self._lacking().items() if not _is_known(kind, one)]

    def _lacking(self) -> Mapping[ServedKind, KindCopy]:
        """Kinds that may not be read any more, or may be listed and not watched."""
        return {kind: one for kind, one in self._copy.copies.items()
                if one.is_lost or one.is_unwatchable}  # fmt: skip


def _is_known(kind: ServedKind, one: KindCopy) -> bool:
    """Whether a kind is known well enough to plan."""
    if one.is_lost:
        return kind.kind in _SAID_ALONE
    if kind not in (kinds.PODS, kinds.NODES) and kind.kind not in kinds.OF_DEVICES:
        return True
    is_without = one.is_forbidden or one.state is WatchState.ABSENT
    return one.state is WatchState.WATCHING or (is_without and kind.kind in kinds.OF_DEVICES)
