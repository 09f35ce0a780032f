"""A service: what whoever answers requests calls. It counts, and never raises, waits or prints.

Requests may come from any thread, and many may be open at once. What is told each second are counts
that add up: requests that ended, tokens, how many requests waited and ran for how long, and how
many took no longer than each of a few bounds. Quantiles are left to whoever reads them.
"""

from __future__ import annotations

from bisect import bisect_left
from threading import Lock
from time import monotonic_ns
from typing import Any, Final

from tidemill.track.run import TrackedRun

BOUNDS_US: Final = tuple(
    round(1000 * ms)
    for ms in (
        1, 2, 5, 10, 15, 20, 30, 40, 50, 75, 100, 150, 200, 300, 400, 500, 750, 1_000, 1_500,
        2_000, 3_000, 5_000, 7_500, 10_000, 15_000, 20_000, 30_000, 60_000, 120_000, 300_000,
    )
)  # fmt: skip
"""Upper bounds of the buckets that times are counted in: each at most twice the one before, from
what a token takes to what a long answer takes."""
FIRST_TOKEN, BETWEEN_TOKENS, WHOLE = "first_token", "between_tokens", "whole"
_TIMES = (FIRST_TOKEN, BETWEEN_TOKENS, WHOLE)


class ServiceMeter:
    """Adds up one stretch of time after the other. Pure: it is told the time."""

    def __init__(self, now_us: int) -> None:
        self._from_us = self._mark_us = now_us
        self._waiting = self._running = 0
        self._open()

    def _open(self) -> None:
        self._sums: dict[str, int | None] = {"requests": 0, "tokens_in": 0, "tokens_out": 0}
        self._waiting_us = self._running_us = 0
        self._counts = {name: [0] * (len(BOUNDS_US) + 1) for name in _TIMES}

    def change(self, now_us: int, waiting: int = 0, running: int = 0) -> None:
        """So many more requests wait and run from now on."""
        self._pass(now_us)
        self._waiting += waiting
        self._running += running

    def add(self, name: str, amount: int | None) -> None:
        """More requests or tokens; None: nobody said how many, and the sum is not known."""
        so_far = self._sums[name]
        self._sums[name] = None if so_far is None or amount is None else so_far + amount

    def took(self, name: str, us: int, times: int = 1) -> None:
        """Something took so long, so often."""
        self._counts[name][bisect_left(BOUNDS_US, us)] += times

    def cut(self, now_us: int) -> dict[str, Any]:
        """What a record says of the stretch that ends now; the next one begins now."""
        self._pass(now_us)
        bounds = (*BOUNDS_US, None)
        found: dict[str, Any] = {
            "from_us": self._from_us, "until_us": self._mark_us, **self._sums,
            "waiting_us": self._waiting_us, "running_us": self._running_us,
        }  # fmt: skip
        for name, counts in self._counts.items():
            some = [[bounds[i], count] for i, count in enumerate(counts) if count]
            found[name] = some or None
        self._from_us = self._mark_us
        self._open()
        return found

    def _pass(self, now_us: int) -> None:
        if now_us > self._mark_us:
            self._waiting_us += self._waiting * (now_us - self._mark_us)
            self._running_us += self._running * (now_us - self._mark_us)
            self._mark_us = now_us


class TrackedService(TrackedRun):
    """One process of a service, from its beginning to its end. Made by ``track.service``."""

    def __init__(self, *run: Any) -> None:  # noqa: ANN401 - as ``TrackedRun`` takes them
        self._meter: ServiceMeter | None = None
        self._counting = Lock()
        self._tells: set[str] = set()
        super().__init__(*run)

    def ready(self) -> None:
        """The model is loaded: from now on it can be asked. The first request says so too."""
        with self._counting:
            if self._meter is None:
                self._meter = ServiceMeter(self._clock.now_us())

    def request(self, tokens_in: int | None = None) -> ServedRequest:
        """A request that has arrived; it ends with the block."""
        self.ready()
        return ServedRequest(self, self.whole("tokens_in", tokens_in))

    def happened(self, at_ns: int, waiting: int = 0, running: int = 0, **sums: int | None) -> None:
        """Requests wait, run or end; what they asked for and got."""
        with self._counting:
            if self._meter is not None:
                self._meter.change(self._clock.us(at_ns), waiting, running)
                for name, amount in sums.items():
                    self._meter.add(name, amount)
                    if amount is not None:
                        self._tells.add(name)

    def tells(self, name: str) -> bool:
        """Whether any request has said how many tokens it had."""
        return name in self._tells

    def took(self, name: str, ns: int, times: int = 1) -> None:
        """Something took so long, so often."""
        with self._counting:
            if self._meter is not None:
                self._meter.took(name, max(0, ns) // 1000, times)

    def _cut(self) -> None:
        with self._counting:
            if self._meter is not None:
                self._keep("load", self._meter.cut(self._clock.now_us()))


class ServedRequest:
    """A request: it waits until it is ``begun`` (or has its first token) and ends with the block.

    What it made may be told token by token, or at once: ``request.tokens_out = …``. One that an
    exception ended has made what was told until then; where others tell their tokens, none.
    """

    __slots__ = ("_arrived_ns", "_is_begun", "_last_ns", "_service", "_told", "tokens_in",
                 "tokens_out")  # fmt: skip

    def __init__(self, service: TrackedService, tokens_in: int | None) -> None:
        self._service, self.tokens_in = service, tokens_in
        self.tokens_out: int | None = None
        self._told = 0
        self._is_begun = False
        self._arrived_ns = self._last_ns = 0

    def __enter__(self) -> ServedRequest:
        self._arrived_ns = monotonic_ns()
        self._service.happened(self._arrived_ns, waiting=1)
        return self

    def begun(self) -> None:
        """It has left the queue and is run."""
        if not self._is_begun:
            self._is_begun = True
            self._service.happened(monotonic_ns(), waiting=-1, running=1)

    def token(self, count: int = 1) -> None:
        """So many more tokens are there."""
        now_ns, made = monotonic_ns(), self._service.whole("count", count) or 0
        if not made:
            return
        self.begun()
        if not self._told:
            self._service.took(FIRST_TOKEN, now_ns - self._arrived_ns)
        else:
            self._service.took(BETWEEN_TOKENS, (now_ns - self._last_ns) // made, made)
        self._told, self._last_ns = self._told + made, now_ns

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        now_ns, told = monotonic_ns(), self._service.whole("tokens_out", self.tokens_out)
        made = told if told is not None else self._told or None
        given = self._service.whole("tokens_in", self.tokens_in)
        if kind is not None:
            made = 0 if made is None and self._service.tells("tokens_out") else made
            given = 0 if given is None and self._service.tells("tokens_in") else given
        self._service.took(WHOLE, now_ns - self._arrived_ns)
        self._service.happened(
            now_ns, waiting=-(not self._is_begun), running=-self._is_begun, requests=1,
            tokens_in=given, tokens_out=made,
        )  # fmt: skip
