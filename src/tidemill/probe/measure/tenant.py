"""One tenant: a process of its own that runs workloads when told to, and tells how it went.

``python -m tidemill.probe.measure.tenant``: one order a line on stdin, one answer a line on stdout,
both JSON. Moments are those of the machine's monotonic clock, which all its processes share, so
that two tenants begin and end together.
"""

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import torch

from tidemill.probe import quantiles
from tidemill.probe.measure import timing
from tidemill.probe.workloads import BY_KIND, Workload

EDGE = 0.1
"""The first and last share of a run, in which perhaps only one of the two is running."""


class LoadedTenant:
    """A workload, laid out on the device."""

    def __init__(self, workload: Workload) -> None:
        kind = getattr(torch, workload.dtype)
        size = (workload.width, workload.width)
        self.workload = workload
        self.weights = [
            (torch.randn(size, device="cuda") / workload.width**0.5).to(kind)
            for _ in range(workload.layers)
        ]
        self.states = [
            torch.randn(workload.rows, workload.width, device="cuda").to(kind) for _ in range(2)
        ]
        self.graph = self._captured()
        self.iterate = self.graph.replay if workload.is_graph else self._eager

    def device_us(self) -> float:
        """How long the device is busy with one iteration: replayed as a graph, without the host."""
        return quantiles.median(timing.seconds(self.graph.replay, 0.2)) * 1e6

    def run(self, begin: float, seconds: float) -> list[float]:
        """Iterate from ``begin`` for ``seconds``; how long each iteration of the middle took."""
        first, last = begin + EDGE * seconds, begin + (1 - EDGE) * seconds
        end, every_s = begin + seconds, self.workload.every_ms / 1000
        took: list[float] = []
        wanted = begin
        while (now := time.monotonic()) < end:
            if now < wanted:
                time.sleep(min(wanted - now, 0.001) if wanted - now > 2e-4 else 0)
                continue
            # A request that had to wait for the one before it counts from when it came.
            started = max(wanted, begin) if every_s else now
            self.iterate()
            torch.cuda.synchronize()
            done = time.monotonic()
            if started >= first and done <= last:
                took.append(done - started)
            wanted = wanted + every_s if every_s else 0.0
        return took

    def _eager(self) -> None:
        source, target = self.states
        for weight in self.weights:
            torch.mm(source, weight, out=target)
            source, target = target, source

    def _captured(self) -> Any:  # noqa: ANN401 - torch.cuda.CUDAGraph has no stub
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self._eager()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._eager()
        return graph


class TenantServer:
    """Answers orders; keeps one workload at a time on the device."""

    def __init__(self) -> None:
        self.tenant: LoadedTenant | None = None

    def answer(self, order: dict[str, Any]) -> dict[str, Any]:
        """``ready`` lays a workload out and warms it; ``run`` runs it."""
        match order["do"]:
            case "ready":
                return self._ready(BY_KIND[order["kind"]])
            case "run":
                assert self.tenant is not None
                return _summary(self.tenant.run(order["begin"], order["seconds"]), order["seconds"])
        raise ValueError(order["do"])

    def _ready(self, workload: Workload) -> dict[str, Any]:
        if self.tenant is None or self.tenant.workload is not workload:
            self.tenant = None
            torch.cuda.empty_cache()
            self.tenant = LoadedTenant(workload)
        for _ in range(5):
            self.tenant.iterate()
        torch.cuda.synchronize()
        return {"ready": True}

    def device_us(self) -> float:
        """Of the workload that is laid out."""
        assert self.tenant is not None
        return self.tenant.device_us()


def _summary(took: list[float], seconds: float) -> dict[str, Any]:
    if not took:
        return {"iterations": 0, "per_s": 0.0, "p50_ms": None, "p99_ms": None, "mean_ms": None}
    return {
        "iterations": len(took),
        "per_s": len(took) / (seconds * (1 - 2 * EDGE)),
        "p50_ms": quantiles.median(took) * 1000,
        "p99_ms": quantiles.quantile(took, 0.99) * 1000,
        "mean_ms": sum(took) / len(took) * 1000,
    }


def main(read: Callable[[], str] = sys.stdin.readline) -> None:
    """Answer until there are no more orders."""
    desk = TenantServer()
    while line := read():
        order = json.loads(line)
        answer = desk.answer(order)
        if order.get("device"):
            answer["device_us"] = desk.device_us()
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
