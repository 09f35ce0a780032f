"""Giving devices to claims (DRA), before a pod is bound; and taking back what was given in vain.

The plan says which devices a pod has. A claim is allocated to exactly those and reserved for the
pod in one write, which the server takes only if nobody changed the claim meanwhile. A device that a
claim holds is never given to another: where the cluster shows that it is taken, others of the same
part that are free do as well, and the comparison tells the books. All claims of a gang are
allocated before the first of its pods is bound. A claim that is allocated for a pod of ours which
is not bound, and about to be, was left by a bind that failed or by a scheduler that was killed: it
is taken back. Nobody else's ever is.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Protocol
from uuid import uuid4

import msgspec

from tidemill.live.kubernetes import dra
from tidemill.live.kubernetes.api.client import UNREACHABLE
from tidemill.live.kubernetes.api.writing import MERGE, Written
from tidemill.live.kubernetes.dra import Device, DeviceClaim, DeviceId
from tidemill.live.kubernetes.pods import KubePod
from tidemill.live.kubernetes.scheduling.claims import Key
from tidemill.live.kubernetes.scheduling.view import ClusterView

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.05, 2.0
MOST_TRIES = 12


class Writer(Protocol):
    """Whoever sends changes to the server."""

    async def send(
        self, method: str, path: str, body: bytes = b"", kind: str = "application/json"
    ) -> Written:
        """Send one request; raises where nobody knows whether it was done."""


class DeviceSeat(Protocol):
    """A pod, and the devices of a part of a machine that the plan gives it."""

    @property
    def key(self) -> Key: ...
    @property
    def uid(self) -> str: ...
    @property
    def node(self) -> str: ...
    @property
    def place(self) -> str: ...
    @property
    def devices(self) -> int: ...


class AllocationCounts(msgspec.Struct):
    """What was given since the beginning, and what was taken back."""

    allocated: int = 0
    claim_conflicts: int = 0
    taken_back: int = 0


class _Result(NamedTuple):
    request: str
    device: DeviceId


class NotGiven(NamedTuple):
    """That not all pods of a job can be given their devices."""

    at: int
    """Which of them, for one."""
    said: str
    is_short: bool
    """Too few of what it selects are left on its node: another node may do."""


class _Refused(Exception):  # noqa: N818 - never leaves this module
    """The devices cannot be given, and why."""

    is_short = False


class _Short(_Refused):
    is_short = True


class ClaimWriter:
    """Writes the claims of pods of ours; ``may_write``: false once somebody else may lead."""

    def __init__(self, writer: Writer, view: ClusterView, may_write: Callable[[], bool]) -> None:
        self._writer, self._view, self._may_write = writer, view, may_write
        self._giving: Counter[DeviceId] = Counter()
        """Devices that are being given, until the server has taken it."""
        self._sending: dict[str, list[DeviceSeat]] = {}
        """By uid of a pod: its seats that are being filled, the oldest first. Where a node is lost
        meanwhile there is a second; it waits for what comes of the first."""
        self._freeing: set[Key] = set()
        view.claimed.giving = self._on_their_way
        self.counts = AllocationCounts()

    def _on_their_way(self) -> tuple[set[str], set[DeviceId]]:
        """Pods that are being given devices, by uid, and those that the plan gives them."""
        planned = {
            one
            for seats in self._sending.values() for seat in seats
            for bit, one in enumerate(self._view.devices_at(seat.place))
            if seat.devices >> bit & 1
        }  # fmt: skip
        return {*self._sending}, planned | {*(+self._giving)}

    def has_claims(self, seat: DeviceSeat) -> bool:
        """Whether a pod has claims that have to be allocated before it is bound."""
        pod = self._view.pods.get(seat.key)
        return pod is not None and bool(pod.request.claims)

    def begin(self, seats: Iterable[DeviceSeat]) -> None:
        """These pods are going to be bound: what they are given is not taken back."""
        for seat in seats:
            self._sending.setdefault(seat.uid, []).append(seat)

    def end(self, seat: DeviceSeat) -> None:
        """A pod is bound, or will not be."""
        mine = self._sending.get(seat.uid, [])
        if seat in mine:
            mine.remove(seat)
        if not mine:
            self._sending.pop(seat.uid, None)

    async def allocate(self, seats: Sequence[DeviceSeat]) -> NotGiven | None:
        """Give all of these pods their devices; None: it is done."""
        given = await asyncio.gather(*map(self._give, seats), return_exceptions=True)
        for error in given:
            if isinstance(error, BaseException) and not isinstance(error, _Refused):
                raise error
        refused = (
            NotGiven(at, str(error), error.is_short)
            for at, error in enumerate(given) if isinstance(error, _Refused)
        )  # fmt: skip
        return next(refused, None)

    def stale(self) -> list[DeviceClaim]:
        """Claims of ours that are allocated for nobody who is bound, or about to be."""
        return [
            claim for claim in self._view.claimed.stale()
            if not any(uid in self._sending for uid in claim.reserved)
            and (claim.namespace, claim.name) not in self._freeing
        ]  # fmt: skip

    async def take_back(self, claim: DeviceClaim) -> bool:
        """Take the devices of a claim of ours back; whether that was done, or is not due now."""
        if any(uid in self._sending for uid in claim.reserved):
            return True  # its pod is about to be bound after all
        return await self._clear(claim)

    async def _clear(self, claim: DeviceClaim) -> bool:
        key = (claim.namespace, claim.name)
        if key in self._freeing or not self._may_write():
            return False
        self._freeing.add(key)
        try:
            answer = await self._patch(claim, "/status", {
                "status": {"allocation": None, "reservedFor": None},
            })  # fmt: skip
            is_done = answer is not None and answer.is_done
            self.counts.taken_back += is_done
            if answer is not None and is_done:
                self._view.take_claim(dra.read_claim(msgspec.json.decode(answer.body)))
            else:
                await self._look(key)
            return is_done
        finally:
            self._freeing.discard(key)

    # One pod ------------------------------------------------------------------------------------

    async def _give(self, seat: DeviceSeat) -> None:
        while self._sending[seat.uid][0] is not seat:
            await asyncio.sleep(FIRST_PAUSE_S)
        pause_s = FIRST_PAUSE_S
        for _ in range(MOST_TRIES):
            pod = self._view.pods.get(seat.key)
            if pod is None or pod.uid != seat.uid or pod.node or not self._may_write():
                return  # the bind will find that out
            if self._sending[seat.uid][-1] is not seat:
                raise _Refused("it was placed anew")
            lacking = [
                claim for claim in self._view.claimed.book.of_pod(pod) if not self._has(claim, seat)
            ]
            if not lacking:
                return
            if await self._try(lacking[0], pod, seat):
                continue
            if said := self._view.claimed.short_of(seat.node, [pod], of_held=True):
                raise _Short(said)
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
        raise _Refused("its claims could not be allocated: devices are held, or nobody answers")

    def _has(self, claim: DeviceClaim, seat: DeviceSeat) -> bool:
        """Whether a claim is allocated on the machine of a seat, for its pod."""
        if not claim.is_allocated or seat.uid not in claim.reserved:
            return False
        if (claim.namespace, claim.name) in self._freeing:
            return False  # nobody knows yet whether it still is
        here = {*self._view.devices_at(seat.place)}
        beside = (
            one for one in self._view.claimed.book.published(seat.node) if not one.is_accelerator
        )
        return {*claim.allocated} <= here | {one.id for one in beside}

    async def _try(self, claim: DeviceClaim, pod: KubePod, seat: DeviceSeat) -> bool:
        """Whether something was done towards a claim that is allocated as planned."""
        if (claim.namespace, claim.name) in self._freeing:
            return False
        if {*claim.reserved} - {seat.uid} or (claim.is_allocated and not claim.reserved):
            raise _Refused(f"claim `{claim.name}` is used by other pods")
        if claim.is_allocated:
            return await self._clear(claim)
        chosen = await self._chosen(claim, seat)
        if chosen is None:
            return False
        self._giving.update(one.device for one in chosen)
        try:
            return await self._write(claim, pod, seat, chosen)
        finally:
            self._giving -= Counter(one.device for one in chosen)

    async def _write(
        self, claim: DeviceClaim, pod: KubePod, seat: DeviceSeat, chosen: Sequence[_Result]
    ) -> bool:
        if not claim.is_protected:
            body = {"metadata": {"finalizers": [dra.FINALIZER]}}
            answer = await self._patch(claim, "", body)
            if not await self._is_done(answer, claim):
                return False
            claim = self._view.claimed.book.claims[claim.namespace, claim.name]
        status = {
            "allocation": self._allocation(claim, seat, chosen),
            "reservedFor": [{"resource": "pods", "name": pod.name, "uid": pod.uid}],
        }
        answer = await self._patch(claim, "/status", {"status": status})
        is_done = await self._is_done(answer, claim)
        self.counts.allocated += is_done
        return is_done

    def _allocation(
        self, claim: DeviceClaim, seat: DeviceSeat, chosen: Sequence[_Result]
    ) -> dict[str, Any]:
        """As the API has it: results, what drivers are told of them, and where they are."""
        results = [
            {"request": one.request, "driver": one.device[0], "pool": one.device[1],
             "device": one.device[2]} | self._whole(one.device)
            for one in chosen
        ]  # fmt: skip
        config = list[dict[str, Any]]()
        for request in self._view.claimed.book.requests(claim):
            known = self._view.claimed.book.classes.get(request.device_class)
            for one in known.config if known is not None else ():
                config.append({"source": "FromClass", "requests": [request.name], **one})
        config += [{"source": "FromClaim", **one} for one in claim.config]
        only = {"key": "metadata.name", "operator": "In", "values": [seat.node]}
        return {
            "devices": {"results": results} | ({"config": config} if config else {}),
            "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [only]}]},
        }

    def _whole(self, device: DeviceId) -> dict[str, Any]:
        """What a result says of a device that may be shared: that nothing of it is left."""
        known = self._view.claimed.book.device(device)
        if known is None or not known.may_be_shared:
            return {}
        return {"shareID": str(uuid4()), "consumedCapacity": dict(known.all_of_it)}

    # Which devices ------------------------------------------------------------------------------

    async def _chosen(self, claim: DeviceClaim, seat: DeviceSeat) -> list[_Result] | None:
        """The devices of each request of a claim; None: some are held still."""
        book = self._view.claimed.book
        ids = self._view.devices_at(seat.place)
        planned = [one for bit, one in enumerate(ids) if seat.devices >> bit & 1]
        await self._free(planned, seat)
        every = book.published(seat.node)
        some = dra.alike(every, claim.alike).values() if claim.alike else [every]
        tries = (self._among(claim, one, ids, planned) for one in some)
        able = [one for one in tries if one is not None and self._fits(seat, one)]
        return max(able, key=lambda one: sum(row.device in planned for row in one), default=None)

    def _among(
        self,
        claim: DeviceClaim,
        devices: Iterable[Device],
        ids: Sequence[DeviceId],
        planned: Sequence[DeviceId],
    ) -> list[_Result] | None:
        """The same, among some devices of the machine; ``ids``: those that the plan counts."""
        book, found = self._view.claimed.book, list[_Result]()
        known = {device.id: device for device in devices}
        for request in book.requests(claim):
            form, count = book.form_of(claim, request.name)
            is_counted = book.is_accelerators(claim, request.name)
            able = [known[one] for one in (ids if is_counted else known) if one in known]
            taken = {one.device for one in found}
            free = [
                device.id for device in able
                if form.holds(device) and device.id not in taken and self._is_free(device.id)
            ]  # fmt: skip
            if len(free) < count:
                return None
            free.sort(key=lambda one: one not in planned)
            found += [_Result(request.name, one) for one in free[:count]]
        return found

    def _fits(self, seat: DeviceSeat, found: Sequence[_Result]) -> bool:
        """Whether devices share no counter of which too little is left."""
        giving = (one for one in self._giving if self._giving[one] > 0)
        wanted = [*giving, *(one.device for one in found)]
        return self._view.claimed.book.fit(seat.node, wanted)

    def _is_free(self, device: DeviceId) -> bool:
        return device not in self._view.claimed.book.holder and not self._giving[device]

    async def _free(self, planned: Sequence[DeviceId], seat: DeviceSeat) -> None:
        """What was left on these devices by somebody who did not come is taken back first."""
        left = {self._view.claimed.book.holder.get(one) for one in planned}
        for claim in self.stale():
            if (claim.namespace, claim.name) in left and seat.uid not in claim.reserved:
                await self.take_back(claim)

    # The server ---------------------------------------------------------------------------------

    async def _patch(self, claim: DeviceClaim, part: str, body: dict[str, Any]) -> Written | None:
        """Change a claim unless somebody else did meanwhile; None: nobody knows what came of it."""
        told = {"uid": claim.uid, "resourceVersion": claim.version} | body.get("metadata", {})
        sent = msgspec.json.encode(body | {"metadata": told})
        try:
            return await self._writer.send("PATCH", _path(claim) + part, sent, MERGE)
        except UNREACHABLE:
            return None

    async def _is_done(self, answer: Written | None, claim: DeviceClaim) -> bool:
        """Whether it was done; what the claim is now is looked at either way."""
        if answer is not None and answer.is_done:
            self._view.take_claim(dra.read_claim(msgspec.json.decode(answer.body)))
            return True
        if answer is not None and answer.status == 409:
            self.counts.claim_conflicts += 1
        elif answer is not None and answer.status != 404 and not answer.is_later:
            raise _Refused(f"claim `{claim.name}`: {answer.status} {answer.said}")
        await self._look((claim.namespace, claim.name))
        return False

    async def _look(self, key: Key) -> None:
        """Ask the server what a claim is now."""
        claim = self._view.claimed.book.claims.get(key)
        if claim is None:
            return
        try:
            answer = await self._writer.send("GET", _path(claim))
        except UNREACHABLE:
            return
        if answer.is_done:
            self._view.take_claim(dra.read_claim(msgspec.json.decode(answer.body)))
        elif answer.status == 404:
            self._view.take_claim(claim, is_gone=True)


def _path(claim: DeviceClaim) -> str:
    return f"/apis/resource.k8s.io/v1/namespaces/{claim.namespace}/resourceclaims/{claim.name}"
