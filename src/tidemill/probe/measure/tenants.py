"""Two tenants at once: throughput and p99 of each, alone and together, under each mode."""

import json
import os
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import IO, Any

from tidemill.model.errors import BackendError
from tidemill.probe.card import MeasuredTenant, Mode, Pair, PairedRun
from tidemill.probe.measure import mps, visible
from tidemill.probe.workloads import BY_KIND

LEAD_S = 0.05
"""Both are told to begin so far ahead that the order has certainly arrived."""
PATIENCE_S = 90.0


class TenantProcess:
    """A tenant's process as its parent sees it."""

    def __init__(self, environment: dict[str, str]) -> None:
        self.complaints = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the seat
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tidemill.probe.measure.tenant"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.complaints,
            env=environment,
        )

    def tell(self, **order: object) -> None:
        """Send an order."""
        _pipe(self.process.stdin).write(json.dumps(order).encode() + b"\n")
        _pipe(self.process.stdin).flush()

    def hear(self) -> dict[str, Any]:
        """Wait for its answer."""
        out = _pipe(self.process.stdout)
        ready, _, _ = select.select([out], [], [], PATIENCE_S)
        line = out.readline() if ready else b""
        if not line:
            self.complaints.seek(0)
            said = self.complaints.read()[-400:].decode(errors="replace").strip()
            raise BackendError(f"a tenant did not answer: {said or 'it said nothing'}")
        told: dict[str, Any] = json.loads(line)
        return told

    def close(self) -> None:
        """End it: no more orders; and if that is not enough, end its process."""
        _pipe(self.process.stdin).close()
        try:
            self.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        _pipe(self.process.stdout).close()
        self.complaints.close()


@contextmanager
def seats(mode: Mode, index: int) -> Iterator[tuple[TenantProcess, TenantProcess]]:
    """Two tenants under a mode."""
    with ExitStack() as stack:
        ours = stack.enter_context(mps.daemon(index)) if mode == "mps" else {}
        if mode == "time-slice" and (found := mps.running()):
            raise BackendError(f"an MPS daemon is running ({found}): tenants would not be "
                               "time-sliced")  # fmt: skip
        environment = {**os.environ, **ours, "CUDA_VISIBLE_DEVICES": visible.name_of(index)}
        pair = (TenantProcess(environment), TenantProcess(environment))
        for seat in pair:
            stack.callback(seat.close)
        yield pair


def alone(seat: TenantProcess, kind: str, seconds: float) -> MeasuredTenant:
    """One workload with the card to itself."""
    workload = BY_KIND[kind]
    seat.tell(do="ready", kind=kind, device=True)
    device_us = seat.hear()["device_us"]
    seat.tell(do="run", begin=time.monotonic() + LEAD_S, seconds=seconds)
    told = seat.hear()
    return MeasuredTenant(
        kind=kind,
        words=workload.words,
        period_us=1e6 / told["per_s"],
        device_us=device_us,
        kernels=workload.layers,
        flops=workload.flops,
        bytes=workload.bytes,
        memory_bytes=workload.memory_bytes,
        per_s=told["per_s"],
        p50_ms=told["p50_ms"],
        p99_ms=told["p99_ms"],
    )


def together(
    pair: tuple[TenantProcess, TenantProcess], kinds: tuple[str, str], mode: Mode, seconds: float
) -> Pair:
    """Both at once."""
    for seat, kind in zip(pair, kinds, strict=True):
        seat.tell(do="ready", kind=kind)
    for seat in pair:
        seat.hear()
    begin = time.monotonic() + LEAD_S
    for seat in pair:
        seat.tell(do="run", begin=begin, seconds=seconds)
    first, second = (seat.hear() for seat in pair)
    return Pair(mode=mode, a=_run(kinds[0], first), b=_run(kinds[1], second), seconds=seconds)


def measure(
    mode: Mode,
    index: int,
    kinds: Sequence[tuple[str, str]],
    seconds: float,
    may_begin: Callable[[], bool],
    with_alone: bool,
) -> tuple[list[MeasuredTenant], list[Pair]]:
    """Each kind alone (if asked), then every pair, in one mode, while one more may begin."""
    with seats(mode, index) as pair:
        names = dict.fromkeys(kind for both in kinds for kind in both) if with_alone else ()
        single = [alone(pair[0], kind, seconds) for kind in names if may_begin()]
        double = [together(pair, both, mode, seconds) for both in kinds if may_begin()]
    return single, double


def _run(kind: str, told: dict[str, Any]) -> PairedRun:
    return PairedRun(kind=kind, per_s=told["per_s"], p50_ms=told["p50_ms"], p99_ms=told["p99_ms"],
               iterations=told["iterations"])  # fmt: skip


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe is not None
    return pipe
