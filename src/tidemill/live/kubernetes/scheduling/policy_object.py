"""A SchedulingPolicy of the cluster: kept by watch, and told in its status what became of it.

One object by its name. What is in it is for whoever reads rules (``running.RulesSource``); here are
its versions and its condition ``Accepted``. A kind that the cluster does not have, or an object
that is not there, is no error: there is no such policy then.
"""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec

from tidemill.live.kubernetes.api.client import UNREACHABLE, ApiClient, ApiRefusal
from tidemill.live.kubernetes.api.kubeconfig import ClusterAccess
from tidemill.live.kubernetes.api.writing import ApiWriter
from tidemill.model.errors import TidemillError

GROUP, VERSION, KIND, PLURAL = "tidemill.dev", "v1alpha1", "SchedulingPolicy", "schedulingpolicies"
PATH = f"/apis/{GROUP}/{VERSION}/{PLURAL}"
ACCEPTED = "Accepted"
MERGE = "application/merge-patch+json"
AGAIN_S, LONGEST_S = 1.0, 30.0
FIRST_S, MOST_TRIES = 0.25, 8
"""When it begins: with the pauses between them, half a minute."""

Object = dict[str, Any]


class WatchedPolicy:
    """The object of a name, as the cluster has it now; use it in one event loop."""

    def __init__(self, access: ClusterAccess, name: str, log: Callable[..., None]) -> None:
        self.name, self.log = name, log
        self._client = ApiClient(access)
        self._writer = ApiWriter(access, connections=1)
        self.found: Object | None = None
        """None: there is none."""
        self._keeping: asyncio.Task[None] | None = None
        self._telling: asyncio.Task[None] | None = None
        self._condition: Object | None = None

    @property
    def stamp(self) -> tuple[str, int]:
        """What is another when somebody changed what it wants."""
        meta = (self.found or {}).get("metadata", {})
        return str(meta.get("uid", "")), int(meta.get("generation", 0))

    async def start(self) -> None:
        """Read it once, and keep it from then on.

        A server that is not well is asked again: just after its kind was applied it says 429.
        """
        pause_s, tries = FIRST_S, MOST_TRIES
        while True:
            try:
                version = await self._get()
                break
            except ApiRefusal as error:
                tries -= 1
                if not error.is_later or not tries:
                    raise
                await asyncio.sleep(max(pause_s, min(error.retry_s, LONGEST_S)))
                pause_s = min(2 * pause_s, LONGEST_S)
        self._keeping = asyncio.create_task(self._keep(version))

    async def stop(self) -> None:
        """End everything; what is being told is told first."""
        if self._telling is not None:
            await asyncio.gather(self._telling, return_exceptions=True)
        if self._keeping is not None:
            self._keeping.cancel()
            await asyncio.gather(self._keeping, return_exceptions=True)
        await self._client.close()
        await self._writer.close()

    def tell(self, refused: TidemillError | None) -> None:
        """Say in its status whether it holds; nothing, if that was said."""
        if self.found is None:
            return
        made = _condition(self.found, refused)
        if _is_said(self.found, made):
            return
        self._condition = made
        if self._telling is None or self._telling.done():
            self._telling = asyncio.get_running_loop().create_task(self._tell())

    async def _tell(self) -> None:
        while self._condition is not None:
            made, self._condition = self._condition, None
            body = msgspec.json.encode({"status": {"conditions": [made]}})
            try:
                told = await self._writer.send("PATCH", f"{PATH}/{self.name}/status", body, MERGE)
            except UNREACHABLE:
                continue  # no more than a word that is missing
            if not told.is_done:
                self.log("status refused", policy=self.name, said=told.said)

    async def _get(self) -> str:
        """Read all there are; the version to watch from."""
        version, found = "", None
        try:
            async for page in self._client.pages(PATH, self._query):
                version = page.version
                for one in page.items:
                    found = one
        except ApiRefusal as error:
            if error.status != 404:
                raise
        self.found = found
        return version

    @property
    def _query(self) -> dict[str, str | int]:
        return {"fieldSelector": f"metadata.name={self.name}"}

    async def _keep(self, version: str) -> None:
        pause_s = AGAIN_S
        while True:
            try:
                if version:
                    await self._watch(version)
                    pause_s = AGAIN_S
            except (*UNREACHABLE, ApiRefusal, msgspec.DecodeError):
                pass  # read again below
            await asyncio.sleep(pause_s)
            try:
                version = await self._get()
            except (*UNREACHABLE, ApiRefusal, msgspec.DecodeError) as error:
                self.log("policy not readable", policy=self.name, said=str(error)[:300])
                version, pause_s = "", min(2 * pause_s, LONGEST_S)

    async def _watch(self, version: str) -> None:
        async with self._client.watching(PATH, version, self._query) as changes:
            async for change in changes:
                if change.kind == "DELETED":
                    self.found = None
                elif change.kind in ("ADDED", "MODIFIED"):
                    self.found = change.body


def _condition(one: Object, refused: TidemillError | None) -> Object:
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    hint = f"; {refused.hint}" if refused is not None and refused.hint else ""
    return {
        "type": ACCEPTED, "status": "True" if refused is None else "False",
        "reason": "Valid" if refused is None else "Invalid",
        "message": "it holds" if refused is None else (refused.message + hint)[:1000],
        "observedGeneration": one.get("metadata", {}).get("generation", 0),
        "lastTransitionTime": now,
    }  # fmt: skip


def _is_said(one: Object, made: Object) -> bool:
    told = one.get("status", {}).get("conditions", ())
    keys = ("type", "status", "message", "observedGeneration")
    return any(all(old.get(key) == made[key] for key in keys) for old in told)
