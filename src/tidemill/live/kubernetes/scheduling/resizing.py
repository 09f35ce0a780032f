"""Asking owners of elastic gangs for more or fewer pods, by their scale.

A change names the number that it is made from: if somebody changed it meanwhile it is refused, and
the gang is looked at again. What the owner makes of it is seen, not assumed.
"""

import asyncio
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import NamedTuple

import msgspec

from tidemill.live.kubernetes import owners
from tidemill.live.kubernetes.api.client import UNREACHABLE
from tidemill.live.kubernetes.api.writing import ApiWriter, Written
from tidemill.live.kubernetes.jobs import UnitKey
from tidemill.live.kubernetes.owners import OwnerObject
from tidemill.live.kubernetes.pods import KubePod
from tidemill.live.kubernetes.scheduling.view import ClusterView

LONGEST_MS = 120_000
"""So long a gang may take to have the size that it was asked for; then it is called off. Owners act
within seconds; pods that are ending are waited for however long that takes."""
AGAIN_S, LATER_S = 1.0, 60.0
"""After a change that was refused for now, or that is forbidden, the owner is asked again."""
JSON_PATCH = "application/json-patch+json"


class Resize(NamedTuple):
    """An owner that is to have another number of pods."""

    job: int
    unit: UnitKey
    owner: OwnerObject
    now: int
    """Its scale, as it was seen."""
    wanted: int
    leavers: tuple[KubePod, ...] = ()
    """Pods that have to be evicted first."""


class Resizer:
    """Sends changes of scales; ``on_done`` is told of each that the server took."""

    def __init__(
        self,
        writer: ApiWriter,
        view: ClusterView,
        may_write: Callable[[], bool],
        on_done: Callable[[Resize], None],
        log: Callable[..., None],
    ) -> None:
        self._writer, self._view, self._may_write = writer, view, may_write
        self._on_done, self._log = on_done, log
        self._asking: dict[str, asyncio.Task[None]] = {}
        """By uid of the owner."""
        self._not_before: dict[str, float] = {}
        self.done = 0
        self.refused = 0

    @property
    def is_idle(self) -> bool:
        """Whether every answer has come."""
        return not self._asking

    def ask(self, some: Iterable[Resize]) -> None:
        """Ask these owners, each one time at a time."""
        for one in some:
            uid = one.owner.uid
            if uid in self._asking or time.monotonic() < self._not_before.get(uid, 0.0):
                continue
            task = asyncio.get_running_loop().create_task(self._ask(one))
            self._asking[uid] = task
            task.add_done_callback(partial(self._forget, uid))

    def _forget(self, uid: str, _: "asyncio.Task[None]") -> None:
        self._asking.pop(uid, None)

    async def stop(self) -> None:
        """End all that is on its way."""
        tasks = [*self._asking.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _ask(self, one: Resize) -> None:
        if not self._may_write():
            return
        answer = await self._sent(one)
        if answer is not None and answer.is_done:
            self.done += 1
            self._on_done(one)
            return  # the watch shows what it is now
        is_final = answer is not None and answer.status in (401, 403, 404, 405)
        if is_final and answer is not None:
            self.refused += 1
            self._log("resize refused", job=one.unit.shown, said=f"{answer.status} {answer.said}",
                      missing_rule=_rule(one.owner, self._plural(one.owner)))  # fmt: skip
        pause_s = LATER_S if is_final else AGAIN_S
        self._not_before[one.owner.uid] = time.monotonic() + pause_s
        asyncio.get_running_loop().call_later(pause_s, self._look_again, one.unit)

    def _look_again(self, unit: UnitKey) -> None:
        self._view.dirty_units[unit] = None
        self._view.changed()

    def _plural(self, owner: OwnerObject) -> str:
        return self._view.served[owner.group, owner.kind].plural

    async def _sent(self, one: Resize) -> Written | None:
        kind = self._view.served[one.owner.group, one.owner.kind]
        path = f"/apis/{kind.api_version}/namespaces/{one.owner.namespace}/{kind.plural}"
        # Jobs have no scale of their own; of an indexed one both numbers change together
        is_job = owners.is_job(one.owner.kind, one.owner.group)
        path = f"{path}/{one.owner.name}" + ("" if is_job else "/scale")
        fields = ("parallelism", "completions") if is_job else ("replicas",)
        change = [{"op": "test", "path": f"/spec/{fields[0]}", "value": one.now}]
        change += [{"op": "replace", "path": f"/spec/{name}", "value": one.wanted}
                   for name in fields]  # fmt: skip
        try:
            return await self._writer.send("PATCH", path, msgspec.json.encode(change), JSON_PATCH)
        except UNREACHABLE:
            return None


def _rule(owner: OwnerObject, plural: str) -> str:
    resource = plural if owners.is_job(owner.kind, owner.group) else f"{plural}/scale"
    return f'apiGroups: ["{owner.group}"], resources: ["{resource}"], verbs: ["patch"]'
