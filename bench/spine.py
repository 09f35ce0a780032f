"""The spine at size: 100,000 generated jobs on 1,024 nodes, journal on disk, ledger and checks on.

Reports jobs per CPU-second, peak memory, where the time goes, and the same as a ratio to a plain
Python reference timed in the same run (heap and dictionary work), because machines differ.
"""

import cProfile
import heapq
import pstats
import resource
import tempfile
import time
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from bench.returns import CountedTwin
from tidemill import api
from tidemill.ledger.buckets import BY_KEY
from tidemill.model.measures import DAY_MS
from tidemill.model.states import JobState
from tidemill.twin.spec.tables import Spec

SPEC = Path(__file__).with_name("spine.toml")


def run(jobs_at_most: int | None = None) -> dict[str, Any]:
    """One run at three quarters load; then a shorter one under the profiler."""
    spec = _cut(api.load_spec(SPEC), jobs_at_most)
    return _timed(spec) | {"where_the_time_goes": _division(_cut(spec, 10_000))}


def overload(jobs_at_most: int | None = 20_000) -> dict[str, Any]:
    """The same fleet with twice the arrivals: it is full within a day, and teams reclaim."""
    spec = api.load_spec(SPEC)
    busier = tuple(replace(row, per_day=2 * row.per_day) for row in spec.workloads)
    return _timed(_cut(replace(spec, workloads=busier), jobs_at_most))


def _timed(spec: Spec) -> dict[str, Any]:
    api.simulate(_cut(spec, 500))  # kernels are compiled or loaded before the clock starts
    reference = reference_per_cpu_s()
    with tempfile.TemporaryDirectory() as folder:
        start = time.process_time()
        twin = CountedTwin.from_spec(spec)
        done = api.run(
            twin, spec.policy, journal=str(Path(folder) / "spine.sqlite"), name=spec.twin.name,
            end_ms=int(spec.twin.horizon),
        )  # fmt: skip
        cpu_s = time.process_time() - start
        size = sum(file.stat().st_size for file in Path(folder).iterdir())
    world = done.world
    rate = world.job_count / cpu_s
    return {
        "jobs": world.job_count,
        "ended": int((world.jobs.state[: world.job_count] >= JobState.DONE).sum()),
        "waiting_at_the_end": sum(len(jobs) for jobs in world.waiting),
        "nodes": world.node_count,
        "events": world.seq,
        "cpu_s": round(cpu_s, 2),
        "jobs_per_cpu_s": round(rate),
        "events_per_cpu_s": round(world.seq / cpu_s),
        "reference_per_cpu_s": round(reference),
        "jobs_per_1000_reference": round(1000 * rate / reference, 2),
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "journal_mib": size >> 20,
        "useful_share": _share(done, "useful"),
        **twin.returns(world.job_count),
    }


def reference_per_cpu_s() -> float:
    """Heap and dictionary steps of plain Python per CPU-second: the yardstick of the machine."""
    steps, heap, seen = 300_000, list[tuple[int, int]](), dict[int, int]()
    start = time.process_time()
    for i in range(steps):
        heapq.heappush(heap, (i * 7919 % 100_003, i))
        if i % 3 == 2:
            key, value = heapq.heappop(heap)
            seen[key] = seen.get(key, 0) + value
    return steps / (time.process_time() - start)


def _division(spec: Spec) -> dict[str, str]:
    profiler = cProfile.Profile()
    profiler.enable()
    api.simulate(spec)
    profiler.disable()
    sums: dict[str, float] = {}
    for (file, _, name), row in pstats.Stats(profiler).stats.items():  # type: ignore[attr-defined]
        sums[_room(file, name)] = sums.get(_room(file, name), 0.0) + row[2]
    total = sum(sums.values())
    by_share = sorted(sums.items(), key=lambda item: -item[1])
    return {room: f"{seconds / total:.0%}" for room, seconds in by_share if seconds > total / 100}


def _room(file: str, name: str) -> str:
    parts = Path(file).parts
    if "tidemill" in parts:
        room = parts[parts.index("tidemill") + 1]
        return room.removesuffix(".py")
    return "kernels" if "tidemill." in name else "python, numpy"


def _cut(spec: Spec, jobs: int | None) -> Spec:
    """The same fleet for as long as it takes to get about this many jobs."""
    if jobs is None:
        return spec
    per_day = sum(row.per_day for row in spec.workloads)
    horizon = min(int(spec.twin.horizon), round(jobs / per_day * DAY_MS))
    return replace(spec, twin=replace(spec.twin, horizon=type(spec.twin.horizon)(horizon)))


def _share(done: api.Run, key: str) -> str:
    account = done.statement.total()
    return f"{account.basis_points()[BY_KEY[key]] / 100:.2f} %"
