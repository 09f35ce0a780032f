"""Jobs that the API server does not let us bind: they are held, and asked about until it does.

A right that was taken away, a token that ran out, a webhook that says no: a bind that would be sent
again and again helps nobody. The server is asked whether it would take it (`dryRun`), at growing
pauses; when it would, the job waits in the queue again.
"""

import asyncio
import time
from collections.abc import Callable

from msgspec import Struct

from tidemill.live.kubernetes.jobs import UnitKey
from tidemill.live.kubernetes.scheduling.sending import BEYOND_LIMITS, BindRefused, Sender
from tidemill.live.kubernetes.scheduling.shapes import Unplaceable

FIRST_S, LONGEST_S = 2.0, 60.0
MOST_KNOWN = 10_000
RULE = 'apiGroups: [""], resources: ["pods/binding"], verbs: ["create"]'
"""The rule of a ClusterRole without which nothing is bound."""
FORBIDDEN, REFUSED = "BindForbidden", "BindRefused"


class _Barred(Struct):
    refusal: BindRefused
    next_at: float
    pause_s: float
    task: asyncio.Task[bool] | None = None


class Barring:
    """Who is held because the server refused a bind, and who is so no more."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender
        self._barred: dict[UnitKey, _Barred] = {}
        self._beyond_s: dict[UnitKey, float] = {}
        """How long jobs were last held that did not fit the limits of a node."""

    def note(self, unit: UnitKey, refusal: BindRefused) -> bool:
        """A bind of this job was refused; whether that is news."""
        if unit in self._barred:
            return False
        pause_s = FIRST_S
        if refusal.status == BEYOND_LIMITS:
            pause_s = min(2 * self._beyond_s.pop(unit, FIRST_S / 2), LONGEST_S)
            self._beyond_s[unit] = pause_s
            if len(self._beyond_s) > MOST_KNOWN:
                del self._beyond_s[next(iter(self._beyond_s))]
        self._barred[unit] = _Barred(refusal, time.monotonic() + pause_s, pause_s)
        return True

    def why(self, unit: UnitKey) -> Unplaceable:
        """What to say of a job that is held for it."""
        found = self._barred[unit].refusal
        if found.status == BEYOND_LIMITS:
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
            if one.task is not None and one.task.done():
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
