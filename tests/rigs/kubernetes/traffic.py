"""Objects put into a cluster as fast as its API server takes them, and when their pods are bound.

One event loop with connections that are kept: a request costs some tenth of a millisecond of the
processor, so that what is measured is the cluster. Every pod belongs to a unit of work (itself, or
its gang), which it names in a label; a unit is bound when all of its pods are. Times are of this
process: from before an object is sent until the watch shows the pod with a node.
"""

import asyncio
import json
import ssl
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from typing import Any, NamedTuple

import msgspec

from tests.rigs.kubernetes.cluster import ADMIN, Cluster, RigError

Object = dict[str, Any]
UNIT = "rig/unit"
"""The label by which a pod names what it is part of."""
CONNECTIONS = 16
MOST_HEAD_BYTES = 64 << 10


class Sent(NamedTuple):
    """An object to be created, where, and the unit of work that it belongs to."""

    unit: str
    path: str
    wanted: Object


class Unit(NamedTuple):
    """Pods that count as bound when all of them are."""

    name: str
    pods: int
    sent: tuple[Sent, ...]


class _Condition(msgspec.Struct):
    type: str
    status: str
    reason: str = ""


class _Metadata(msgspec.Struct):
    name: str
    namespace: str
    resourceVersion: str  # noqa: N815 - the API's word
    labels: dict[str, str] = {}


class _Spec(msgspec.Struct):
    nodeName: str = ""  # noqa: N815 - the API's word


class _Status(msgspec.Struct):
    conditions: list[_Condition] = []


class _Pod(msgspec.Struct):
    metadata: _Metadata
    spec: _Spec
    status: _Status


class _Event(msgspec.Struct):
    type: str
    object: _Pod


def _is_refusal(condition: _Condition) -> bool:
    """Not every pod that waits was refused: others are gated, or told that their turn comes."""
    return condition.type == "PodScheduled" and condition.reason == "Unschedulable"


_DECODER = msgspec.json.Decoder(_Event)


class Seen:
    """What the watch has shown so far."""

    def __init__(self, version: str) -> None:
        self.version = version
        """Everything until then has been seen."""
        self.bound_s: dict[str, dict[str, float]] = {}
        """When each pod of a unit was first seen with a node."""
        self.node: dict[str, str] = {}
        self.refused: set[str] = set()
        """Pods of which the scheduler says that they fit nowhere now."""
        self.last_s = time.monotonic()
        """When the newest bind was seen, or the watch began."""
        self.is_broken = False
        """The watch has ended; nothing more will be seen."""
        self._changed = asyncio.Event()

    def take(self, line: bytes) -> None:
        """One event of the watch."""
        told = _DECODER.decode(line)
        pod = told.object
        self.version = pod.metadata.resourceVersion
        unit = pod.metadata.labels.get(UNIT)
        if unit is None or told.type == "DELETED":
            return
        name = f"{pod.metadata.namespace}/{pod.metadata.name}"
        if pod.spec.nodeName:
            self.refused.discard(name)
            if name not in self.node:
                self.node[name], self.last_s = pod.spec.nodeName, time.monotonic()
                self.bound_s.setdefault(unit, {})[name] = self.last_s
        elif any(_is_refusal(condition) for condition in pod.status.conditions):
            self.refused.add(name)
        self._changed.set()

    async def wait_until(self, is_so: Callable[[], bool], timeout_s: float) -> bool:
        """Until something is so that an event of the watch can make so; whether it is."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while not is_so() and not self.is_broken:
                    self._changed.clear()
                    await self._changed.wait()
        return is_so()

    def give_up(self) -> None:
        """Let nobody wait for a watch that has ended."""
        self.is_broken = True
        self._changed.set()

    async def wait_until_quiet(self, quiet_s: float) -> None:
        """Until no pod has been bound for a while."""
        while (left_s := self.last_s + quiet_s - time.monotonic()) > 0:
            await asyncio.sleep(left_s)


class Connection:
    """One kept connection to the API server, as the administrator."""

    def __init__(self, rig: Cluster, reader: asyncio.StreamReader, writer: Any) -> None:
        self._reader, self._writer = reader, writer
        self._head = (
            f"Host: 127.0.0.1:{rig.port}\r\nAuthorization: Bearer {ADMIN}\r\n"
            "Content-Type: application/json\r\n"
        )

    async def ask(self, method: str, path: str, body: bytes = b"") -> bytes:
        """One request, and the whole answer; ``RigError`` unless it succeeds."""
        status, is_chunked, length = await self._send(method, path, body)
        if is_chunked:
            answer = b"".join([part async for part in self._chunks()])
        else:
            answer = await self._reader.readexactly(length)
        if status >= 300:
            raise RigError(f"{method} {path}: {status} {answer[:500]!r}")
        return answer

    async def lines(self, path: str) -> AsyncIterator[bytes]:
        """The lines of an answer that does not end."""
        status, is_chunked, _ = await self._send("GET", path, b"")
        if status >= 300 or not is_chunked:
            raise RigError(f"GET {path}: {status}")
        left = b""
        async for part in self._chunks():
            *whole, left = (left + part).split(b"\n")
            for line in whole:
                yield line

    async def _send(self, method: str, path: str, body: bytes) -> tuple[int, bool, int]:
        head = f"{method} {path} HTTP/1.1\r\n{self._head}Content-Length: {len(body)}\r\n\r\n"
        self._writer.write(head.encode() + body)
        told = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        _, _, length = told.partition("content-length: ")
        is_chunked = "transfer-encoding: chunked" in told
        return int(told.split(" ", 2)[1]), is_chunked, int(length.split("\r")[0] or 0)

    async def _chunks(self) -> AsyncIterator[bytes]:
        while size := int(await self._reader.readuntil(b"\r\n"), 16):
            yield (await self._reader.readexactly(size + 2))[:-2]
        await self._reader.readexactly(2)


@asynccontextmanager
async def connected(rig: Cluster) -> AsyncIterator[Connection]:
    """A connection, closed at the end."""
    trusted = ssl.create_default_context(cafile=str(rig.authority))
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", rig.port, ssl=trusted, limit=MOST_HEAD_BYTES
    )
    try:
        yield Connection(rig, reader, writer)
    finally:
        writer.transport.abort()


@asynccontextmanager
async def watching(rig: Cluster) -> AsyncIterator[Seen]:
    """The pods of the cluster, watched from now on."""
    async with connected(rig) as connection:
        found = json.loads(await connection.ask("GET", "/api/v1/pods?limit=1"))
        seen = Seen(found["metadata"]["resourceVersion"])

        async def read() -> None:
            try:
                while True:  # the server ends the watch of whoever it finds too slow
                    path = f"/api/v1/pods?watch=1&resourceVersion={seen.version}"
                    async for line in connection.lines(path):
                        seen.take(line)
            finally:
                seen.give_up()

        task = asyncio.create_task(read())
        try:
            yield seen
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task  # what broke the watch is raised here


async def submit(
    rig: Cluster, all_sent: Iterable[Sent], connections: int = CONNECTIONS
) -> dict[str, float]:
    """Create objects in this order, at most so many at a time; when each unit's first was sent."""
    begun_s: dict[str, float] = {}
    ready = [(sent.unit, sent.path, msgspec.json.encode(sent.wanted)) for sent in all_sent]
    left = iter(ready)

    async def work() -> None:
        async with connected(rig) as connection:
            for unit, path, body in left:
                begun_s.setdefault(unit, time.monotonic())
                await connection.ask("POST", path, body)

    async with asyncio.TaskGroup() as group:
        for _ in range(min(connections, len(ready))):
            group.create_task(work())
    return begun_s
