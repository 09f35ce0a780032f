"""What a scheduler counts, for Prometheus, and whether it is well: `/metrics`, `/livez`, `/readyz`.

Plain HTTP for scraping, on loopback unless somebody asks for more; it only answers GET. It has a
thread of its own: the scheduler's loop stands still while the server of its journal is waited for.
"""

import asyncio
import os
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, NamedTuple, TypeVar

import msgspec

from tidemill.live.kubernetes.scheduling.running import ClusterScheduler
from tidemill.model.columns import AT
from tidemill.model.errors import SpecError
from tidemill.model.states import LAUNCHED

MOST_HEAD_BYTES = 8 << 10
ANSWER_S = 5.0
HEED_S, STUCK_S = 0.5, 120.0
"""So long the scheduler's loop may take to say what it counts (a kubelet waits a second), and so
long it may stand still before it is called stuck: longer than a journal is waited for."""
_COUNTED = {
    "bound": ("binds_total", "Pods that were bound to nodes."),
    "conflicts": ("bind_conflicts_total", "Binds of pods that were gone or bound already."),
    "retries": ("bind_retries_total", "Binds that were sent again."),
    "refused": ("bind_refusals_total", "Binds that the API server refused."),
    "evicted": ("evictions_total", "Pods whose eviction was asked for and taken."),
    "eviction_waits": ("eviction_waits_total", "Evictions that were put off."),
    "given_back": ("preemptions_called_off_total", "Preemptions of which nobody was evicted."),
    "allocated": ("claims_allocated_total", "Claims that were given devices."),
    "claim_conflicts": ("claim_conflicts_total", "Claims that others changed meanwhile."),
    "taken_back": ("claims_taken_back_total", "Claims whose devices were taken back."),
}


_Given = TypeVar("_Given")


class Metric(NamedTuple):
    """One number by name."""

    name: str
    kind: str
    help: str
    value: float


def metrics(made: ClusterScheduler | None, *, is_leader: bool) -> Iterator[Metric]:
    """All numbers of a scheduler; of one that stands by, only that."""
    yield Metric("leader", "gauge", "Whether this replica decides.", int(is_leader))
    if made is None or not hasattr(made, "sender"):
        return
    for counts in (made.sender.counts, made.sender.claims.counts):
        for field, value in msgspec.structs.asdict(counts).items():
            name, text = _COUNTED[field]
            yield Metric(name, "counter", text, value)
    world = made.world
    at, states = world.matrices.at, world.nodes.state[: world.node_count].tolist()
    yield Metric("cycles_total", "counter", "Looks at the cluster, each with a plan.", made.beats)
    yield Metric("jobs_waiting", "gauge", "Jobs that wait.", at.item(AT.WAITING))
    yield Metric(
        "jobs_held", "gauge", "Jobs that are not placed whatever is free.", len(made.differ.held)
    )
    yield Metric(
        "jobs_bind_forbidden", "gauge", "Jobs that the API server does not let us bind.",
        made.refusals.barring.forbidden,
    )  # fmt: skip
    yield Metric("jobs_active", "gauge", "Jobs that hold nodes.", len(world.placements))
    there = sum(state in LAUNCHED for state in states)
    yield Metric("nodes", "gauge", "Nodes with accelerators.", there)
    yield Metric("watching", "gauge", "Whether pods and nodes are watched.", int(made.is_watching))
    yield Metric("pods_told_total", "counter", "Pods told why they wait.", made.sayer.told)
    yield Metric("events_total", "counter", "Events written.", made.sayer.events)


def exposition(found: Iterator[Metric]) -> str:
    """As Prometheus reads it."""
    lines = list[str]()
    for one in found:
        name = f"tidemill_scheduler_{one.name}"
        lines += [f"# HELP {name} {one.help}", f"# TYPE {name} {one.kind}", f"{name} {one.value}"]
    return "\n".join([*lines, ""])


class MetricsServer:
    """Answers GET on one port, for the loop that it is started in.

    That loop is asked; where it does not answer it does one thing, and what it has is read as it
    is: nothing changes it meanwhile, or only that.
    """

    def __init__(self, text: Callable[[], str], why_not_ready: Callable[[], str]) -> None:
        self._text, self._why_not_ready = text, why_not_ready
        self._own = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._own.run_forever, daemon=True)
        self._server: asyncio.Server | None = None
        self._silent_since: float | None = None
        """Since when the loop of the scheduler answers nobody; None: it did, the last time."""

    async def start(self, host: str, port: int) -> int:
        """Listen; the port, where any was asked for. ``SpecError`` if nobody may listen there."""
        self._asked = asyncio.get_running_loop()
        self._thread.start()
        listening = asyncio.start_server(self._answer, host, port, limit=MOST_HEAD_BYTES)
        try:
            self._server = await self._done(listening)
        except OSError as error:
            await self.stop()
            number = error.errno or 0  # below zero: there is no such host
            why = os.strerror(number) if number > 0 else error.strerror
            raise SpecError(
                f"cannot serve metrics on {host}:{port}: {str(why).lower()}",
                hint="give --metrics another [HOST:]PORT of this machine; port 0 takes a free one",
            ) from error
        found: int = self._server.sockets[0].getsockname()[1]
        return found

    async def stop(self) -> None:
        """Listen no more; whoever still asks is left without an answer."""
        await self._done(self._close())
        self._own.call_soon_threadsafe(self._own.stop)
        await asyncio.to_thread(self._thread.join)
        self._own.close()

    async def _close(self) -> None:
        if self._server is not None:
            self._server.close()
        asking = asyncio.all_tasks() - {asyncio.current_task()}
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)

    async def _done(self, work: Coroutine[Any, Any, _Given]) -> _Given:
        """What comes of something that is done in the own loop."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._own))

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(ANSWER_S):
                head = await reader.readuntil(b"\r\n\r\n")
                status, body = await self._found(head.split(b"\r\n", 1)[0])
                kind = "text/plain; version=0.0.4; charset=utf-8"
                told = body.encode()
                writer.write(
                    f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(told)}\r\n"
                    "Connection: close\r\n\r\n".encode()
                    + told
                )
                await writer.drain()
        except (
            TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError,
            asyncio.CancelledError,  # it ends; asyncio would tell of a task that was cancelled
        ):  # fmt: skip
            pass
        finally:
            writer.close()

    async def _found(self, line: bytes) -> tuple[str, str]:
        method, _, rest = line.partition(b" ")
        path = rest.partition(b" ")[0].partition(b"?")[0]
        if method != b"GET":
            return "405 Method Not Allowed", "only GET\n"
        match path:
            case b"/metrics":
                told = await self._heard(self._text)
                return "200 OK", self._text() if told is None else told
            case b"/livez":
                is_stuck = await self._heard(str) is None and self._silent_s() > STUCK_S
                return _judged(self._standing() if is_stuck else "")
            case b"/readyz":
                why = await self._heard(self._why_not_ready)
                return _judged((self._why_not_ready() or self._standing()) if why is None else why)
            case _:
                return "404 Not Found", "there are /metrics, /livez and /readyz\n"

    async def _heard(self, asked: Callable[[], str]) -> str | None:
        """What the scheduler's loop says; None: it does something else."""

        async def say() -> str:
            return asked()

        try:
            async with asyncio.timeout(HEED_S):
                told = await asyncio.wrap_future(
                    asyncio.run_coroutine_threadsafe(say(), self._asked)
                )
        except TimeoutError:
            if self._silent_since is None:
                self._silent_since = time.monotonic()
            return None
        self._silent_since = None
        return told

    def _silent_s(self) -> float:
        return 0.0 if self._silent_since is None else time.monotonic() - self._silent_since

    def _standing(self) -> str:
        return f"its loop has not answered for {self._silent_s():.0f} s"


def _judged(why: str) -> tuple[str, str]:
    return ("503 Service Unavailable", f"{why}\n") if why else ("200 OK", "ok\n")
