"""One leader among several replicas, by a Lease of the cluster (``coordination.k8s.io``).

Who renews it leads. Another takes it over when it has not seen it change for as long as it lasts,
by its own clock: clocks of machines are not compared. A leader whose last renewal was sent too long
ago to be sure of it writes nothing any more, whether or not anybody has taken over.
"""

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec

from tidemill.live.kubernetes import fields
from tidemill.live.kubernetes.api.client import UNREACHABLE, ApiRefusal, refusal_hint
from tidemill.live.kubernetes.api.writing import ApiWriter, Written
from tidemill.live.kubernetes.scheduling.rights import Right
from tidemill.model.errors import BackendError

LASTS_S, SURE_S, RENEW_S, LOOK_S = 8.0, 5.0, 1.5, 0.5
"""How long a Lease lasts, how long after a renewal its holder writes, how often it renews, and how
often who stands by looks at it. The time between the first two is for requests that are on their
way: they take no longer (``ASK_S``). Who stands by has seen the last renewal a look later at most,
and takes over when the Lease has lasted from then on; with what asking and reading the cluster take
it bound 8.7 seconds after a kill in the middle and 10.1 at most (of 16, load 13 on two cores).
"""
ASK_S = 3.0
_VERBS = {"GET": "get", "POST": "create", "PUT": "update"}
_BROKEN = (*UNREACHABLE, msgspec.DecodeError, fields.MalformedObjectError)


class Leadership:
    """The right to decide, under the name of one replica."""

    def __init__(
        self,
        writer: ApiWriter,
        namespace: str,
        name: str,
        holder: str,
        log: Callable[..., None] = lambda *_, **__: None,
    ) -> None:
        self._writer, self.holder, self._name, self._namespace = writer, holder, name, namespace
        self._log = log
        self._path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        self._sure_until = 0.0
        self._seen: tuple[str, str, float] = ("", "", 0.0)
        """Holder and time of renewal as last seen, and since when that did not change."""
        self._lasts_s = LASTS_S
        self.takeovers = 0
        self._was_allowed = False
        """Whether the server once let it read the Lease, or have it."""
        self.refused = ""
        """What the server said when it refused the last look or renewal; "": it did not."""

    def is_sure(self) -> bool:
        """Whether nobody else can be the leader now."""
        return time.monotonic() < self._sure_until

    def has_leader(self) -> bool:
        """Whether somebody else leads, as far as was seen; before the first look it is not so."""
        holder, _, since = self._seen
        return bool(holder) and time.monotonic() - since < self._lasts_s

    async def take(self, on_other: Callable[[str], None] = lambda _: None) -> None:
        """Wait until this replica is the leader.

        ``on_other``: told who holds the Lease meanwhile, and when that changes; "": nobody known.
        """
        told = None
        while not await self.renew():
            if self._seen[0] != told:
                told = self._seen[0]
                on_other(told)
            await asyncio.sleep(self._until_over_s())

    def _until_over_s(self) -> float:
        """Until the next look, or until the Lease that was seen is over, if that comes first."""
        left_s = self._seen[2] + self._lasts_s - time.monotonic()
        return min(LOOK_S, left_s) if left_s > 0 else LOOK_S

    async def keep(self) -> None:
        """Renew until that is too late; returns when the right is lost."""
        while self.is_sure():
            await asyncio.sleep(RENEW_S)
            await self.renew()

    async def renew(self) -> bool:
        """Take or renew the Lease, if it is free, over or ours; whether this replica leads."""
        sent_at = time.monotonic()
        try:
            if await self._renewed():
                self._sure_until = sent_at + SURE_S
            self._was_allowed, self.refused = True, ""
        except _LeaseRefusal as error:
            self._note(error)
        except _BROKEN:
            pass  # it is asked again, as long as the last renewal lasts
        return self.is_sure()

    def _note(self, error: "_LeaseRefusal") -> None:
        """A right that lacks is an error where it never was there. Later it may be back at once (a
        server that was just started refuses all until it knows who may what): the Lease runs out
        by its own time.
        """
        if not self._was_allowed:
            raise BackendError(
                f"asked for the Lease {self._namespace}/{self._name}; found {error}",
                hint=refusal_hint(error.status, "schedule.yaml"),
            ) from None
        if not self.refused:
            lacks = {"missing_rule": self._right(error.verb).rule} if error.status == 403 else {}
            self._log("Lease not renewed", said=str(error), **lacks)
        self.refused = str(error)

    def _right(self, verb: str) -> Right:
        name = "" if verb == "create" else self._name  # what is created has no name before it
        return Right("coordination.k8s.io", "leases", verb, namespace=self._namespace, name=name)

    async def give_up(self) -> None:
        """Let the next one begin at once."""
        if not self.is_sure():
            return
        self._sure_until = 0.0
        try:
            lease = await self._read()
            if lease is not None and fields.text(lease, "spec", "holderIdentity") == self.holder:
                lease["spec"] = {**lease["spec"], "holderIdentity": "", "leaseDurationSeconds": 1}
                await self._write(lease)
        except (_LeaseRefusal, *_BROKEN):
            return  # then it runs out by its own time

    async def _renewed(self) -> bool:
        lease, now = await self._read(), _now()
        if lease is None:
            made = {"metadata": {"name": self._name}, "spec": self._spec(now, 0, now)}
            answer = await self._ask("POST", self._path, made)
            return answer.is_done
        spec = fields.inner(lease, "spec")
        holder, renewed = fields.text(spec, "holderIdentity"), fields.text(spec, "renewTime")
        turns = fields.number(spec, "leaseTransitions") or 0
        if holder != self.holder:
            if (holder, renewed) != self._seen[:2]:
                self._seen = (holder, renewed, time.monotonic())
            self._lasts_s = float(fields.number(spec, "leaseDurationSeconds") or LASTS_S)
            if holder and time.monotonic() - self._seen[2] < self._lasts_s:
                return False
            turns += 1
        began = fields.text(spec, "acquireTime") if holder == self.holder else now
        lease["spec"] = self._spec(now, turns, began or now)
        is_done = (await self._write(lease)).is_done
        self.takeovers += is_done and holder != self.holder
        return is_done

    def _spec(self, now: str, turns: int, began: str) -> dict[str, Any]:
        return {
            "holderIdentity": self.holder, "leaseDurationSeconds": int(LASTS_S),
            "acquireTime": began, "renewTime": now, "leaseTransitions": turns,
        }  # fmt: skip

    async def _read(self) -> dict[str, Any] | None:
        answer = await self._ask("GET", f"{self._path}/{self._name}")
        if answer.status == 404:
            return None
        if not answer.is_done:
            raise OSError(f"{answer.status}")
        found: dict[str, Any] = msgspec.json.decode(answer.body)
        return found

    async def _write(self, lease: dict[str, Any]) -> Written:
        """Replace it, if nobody else did since it was read (``resourceVersion``)."""
        return await self._ask("PUT", f"{self._path}/{self._name}", lease)

    async def _ask(self, method: str, path: str, body: object = None) -> Written:
        told = b"" if body is None else msgspec.json.encode(body)
        async with asyncio.timeout(ASK_S):
            answer = await self._writer.send(method, path, told)
        if answer.status in (401, 403):
            raise _LeaseRefusal(answer, _VERBS[method])
        return answer


class _LeaseRefusal(ApiRefusal):
    """The server does not let it read or write the Lease."""

    def __init__(self, answer: Written, verb: str) -> None:
        super().__init__(answer.status, answer.said)
        self.verb = verb


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
