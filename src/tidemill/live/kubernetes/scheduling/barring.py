"""Jobs that the API server does not let us bind: they are held, and asked about until it does.

A right that was taken away, a token that ran out, a webhook that says no: a bind that would be sent
again and again helps nobody. The server is asked whether it would take it (`dryRun`), at growing
pauses; when it would, the job waits in the queue again. The rest of a gang that a kubelet would not
take is held until something leaves its node; where that has too few devices, the gang is taken back
(``Differ``).
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable

from msgspec import Struct

from tidemill.live.kubernetes.jobs import UnitKey
from tidemill.live.kubernetes.scheduling.limits import REFUSED
from tidemill.live.kubernetes.scheduling.sending import BindRefused, Sender
from tidemill.live.kubernetes.scheduling.shapes import Unplaceable

FIRST_S, LONGEST_S = 2.0, 60.0
RULE = 'apiGroups: [""], resources: ["pods/binding"], verbs: ["create"]'
"""The rule of a ClusterRole without which nothing is bound."""
FORBIDDEN = "BindForbidden"


class _Barred(Struct):
    refusal: BindRefused
    next_at: float
    pause_s: float
    vacations: int
    """How often something had left its node."""
    task: asyncio.Task[bool] | None = None


class Barring:
    """Who is held because the server refused a bind, and who is so no more."""

    def __init__(self, sender: Sender, vacations: Counter[str]) -> None:
        self._sender, self._vacations = sender, vacations
        self._barred: dict[UnitKey, _Barred] = {}

    def note(self, unit: UnitKey, refusal: BindRefused) -> bool:
        """A bind of this job was refused; whether that is news."""
        if unit in self._barred:
            return False
        vacations = self._vacations[refusal.seat.node]
        self._barred[unit] = _Barred(refusal, time.monotonic() + FIRST_S, FIRST_S, vacations)
        return True

    def why(self, unit: UnitKey) -> Unplaceable:
        """What to say of a job that is held for it."""
        found = self._barred[unit].refusal
        if found.lack is not None:
            return Unplaceable(REFUSED, f"the kubelet would refuse it: {found.said}")
        if not found.is_forbidden:
            return Unplaceable(REFUSED, f"the API server refuses to bind it: {found.said}")
        return Unplaceable(
            FORBIDDEN,
            f"the API server does not let the scheduler bind it: {found.said} (a ClusterRole of"
            f" its service account has to say {RULE})",
        )

    @property
    def forbidden(self) -> int:
        """How many jobs are held because we may not bind at all."""
        return sum(one.refusal.is_forbidden for one in self._barred.values())

    @property
    def said(self) -> str:
        """What the server said of the first that we may not bind; "": nothing is forbidden."""
        found = (one.refusal for one in self._barred.values())
        return next((one.said for one in found if one.is_forbidden), "")

    def free(self, begin: Callable[[UnitKey], None]) -> None:
        """Ask about whoever is due; ``begin`` is called for whom the server takes again."""
        now = time.monotonic()
        for unit, one in list(self._barred.items()):
            if one.refusal.lack is not None:  # no server says whether a kubelet has room by now
                if self._vacations[one.refusal.seat.node] != one.vacations:
                    del self._barred[unit]
                    begin(unit)
            elif one.task is not None and one.task.done():
                if not one.task.cancelled() and one.task.exception() is None and one.task.result():
                    del self._barred[unit]
                    begin(unit)
                    continue
                one.pause_s = min(2 * one.pause_s, LONGEST_S)
                one.task, one.next_at = None, now + one.pause_s
            elif one.task is None and one.next_at <= now:
                ask = self._sender.may_bind(one.refusal.seat)
                one.task = asyncio.get_running_loop().create_task(ask)

    async def stop(self) -> None:
        """Ask nothing more."""
        tasks = [one.task for one in self._barred.values() if one.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
