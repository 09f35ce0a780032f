"""Pods that name a gang and are no part of what is placed together.

Those without accelerators are placed one by one, and count among the pods of the gang: whoever says
how many start together counts them too. Those that name another scheduler are left to that one.
"""

from tidemill.live.kubernetes.jobs import UnitKey
from tidemill.live.kubernetes.pods import KubePod

Key = tuple[str, str]
"""Namespace and name of a pod."""


TIED = "/tied"
"""Instead of the name of a scheduler."""


class MembersApart:
    """By gang: the pods that name it, and that others place, or that have no accelerators."""

    def __init__(self) -> None:
        self._unit_of: dict[Key, UnitKey] = {}
        self._members: dict[UnitKey, dict[Key, str]] = {}
        """With the scheduler that places them; "": one by one, for they have no accelerators;
        ``TIED``: they have none, and have to be in the place of the gang."""

    def take(
        self, key: Key, pod: KubePod, unit: UnitKey | None, *, is_tied: bool = False
    ) -> list[UnitKey]:  # fmt: skip
        """A pod is so now; the gangs to look at. ``unit``: that it names; None: none, or none now.

        One that is gated is not there yet, and one whose claim is not, or whose request nobody can
        read, may have devices.
        """
        before, request = self._unit_of.pop(key, None), pod.request
        if before is not None:
            mine = self._members[before]
            del mine[key]
            if not mine:
                del self._members[before]
        is_unknown = bool(request.claims or request.uncounted or request.unread)
        if pod.gates or (request.gpu is None and is_unknown):
            unit = None
        if unit is not None:
            self._unit_of[key] = unit
            by = request.scheduler if request.gpu is not None else TIED if is_tied else ""
            self._members.setdefault(unit, {})[key] = by
        return [one for one in (before, unit) if one is not None]

    def without_gpus(self, unit: UnitKey) -> list[Key]:
        """The pods of a gang that have no accelerators, and are placed one by one."""
        return [key for key, by in self._members.get(unit, {}).items() if not by]

    def tied(self, unit: UnitKey) -> list[Key]:
        """Those that have none, and have to be in the place of the gang."""
        return [key for key, by in self._members.get(unit, {}).items() if by == TIED]

    def of_others(self, unit: UnitKey) -> list[str]:
        """The schedulers of the pods that name a gang, and not us."""
        return [by for by in self._members.get(unit, {}).values() if by not in ("", TIED)]
