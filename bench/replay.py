"""Replays at speed: two recorded traces and a million generated jobs, ledger and checks on.

The loop is the one that everything runs in (``twin.driving``). Each replay is run once to compile
and load, then timed with the ledger and without it. The yardstick is plain Python work timed in the
same run; peers' figures are those published for a machine of two cores.
"""

import gc
import resource
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from bench import traces
from bench.spine import reference_per_cpu_s
from tidemill import api
from tidemill.engine.loop import Loop
from tidemill.ledger.reader import Ledger
from tidemill.ledger.spans import Window
from tidemill.model.measures import DAY_MS, FOREVER_MS, HOUR_MS
from tidemill.model.policy import Policy
from tidemill.model.states import JobState
from tidemill.model.world import World
from tidemill.twin.backend import Twin
from tidemill.twin.driving.driver import Driver
from tidemill.twin.traces import elasticflow, philly
from tidemill.twin.traces.options import Options

MILLION = Path(__file__).with_name("million.toml")
DEFAULT = Policy()
PLAIN = Policy(placement="pack", backfill="none")
"""Best fit, and everybody may pass: what the peers do. ``million`` has the default policy."""
AFTER_MS = 60 * DAY_MS  # the last arrival: all jobs have ended by then
PEERS = {"philly": 5_814, "elasticflow": 368}
"""Jobs per CPU-second of the fastest peer (Starburst, ATC'24), as measured for such a machine."""


BEATS_PER_COMMIT = 1_024


def run(quick: bool = False) -> dict[str, Any]:
    """All three replays; quick: a tenth of each."""
    share = 10 if quick else 1
    found: dict[str, Any] = {"reference_per_cpu_s": round(reference_per_cpu_s())}
    files = traces.folder()
    recorded = {
        "philly": philly.load(files / "philly" / "philly.csv.gz", Options(accelerators=512)),
        "elasticflow": elasticflow.load(
            files / "elasticflow" / "cluster04.csv", Options(accelerators=480)
        ),
    }
    for name, trace in recorded.items():
        part = replace(trace, arrivals=trace.arrivals[: len(trace.arrivals) // share])
        for policy, words in ((DEFAULT, name), (PLAIN, f"{name}, plain")):
            found[words] = _against(name, _timed(partial(Twin.from_trace, part), policy))
    spec = api.load_spec(MILLION)
    horizon_ms = int(spec.twin.horizon) // share
    spec = replace(spec, twin=replace(spec.twin, horizon=type(spec.twin.horizon)(horizon_ms)))
    found["million, plain"] = _timed(partial(Twin.from_spec, spec), PLAIN, horizon_ms)
    return found


def million(nodes: int = 12_500, times: int = 1, hours: int = 96) -> dict[str, Any]:
    """The generated jobs of so many hours under the default policy, until all have ended.

    ``times`` as many come per day, so that a queue builds up within an hour or two.
    """
    spec = api.load_spec(MILLION)
    span = type(spec.twin.horizon)
    coming = [
        replace(row, per_day=times * row.per_day, end=span(hours * HOUR_MS))
        for row in spec.workloads
    ]
    spec = replace(
        spec,
        twin=replace(spec.twin, horizon=span(hours * HOUR_MS + AFTER_MS)),
        contracts=type(spec.contracts)([replace(spec.contracts[0], count=8 * nodes)]),
        workloads=type(spec.workloads)(coming),
    )
    found = _play(Twin.from_spec(spec), DEFAULT, int(spec.twin.horizon), has_ledger=True)
    return {"reference_per_cpu_s": round(reference_per_cpu_s()), **found}


def _timed(twin: Callable[[], Twin], policy: Policy, end_ms: int = FOREVER_MS) -> dict[str, Any]:
    _play(twin(), policy, end_ms, has_ledger=True)
    with_ledger = _play(twin(), policy, end_ms, has_ledger=True)
    without = _play(twin(), policy, end_ms, has_ledger=False)
    return with_ledger | {"jobs_per_cpu_s_without_ledger": without["jobs_per_cpu_s"]}


def _play(twin: Twin, policy: Policy, end_ms: int, *, has_ledger: bool) -> dict[str, Any]:
    gc.collect()  # what an earlier run left is not this one's memory
    world = World()
    bin_ms = DAY_MS if end_ms >= FOREVER_MS else HOUR_MS
    readers = [Ledger(policy, Window(0, end_ms, bin_ms))] if has_ledger else []

    loop = Loop(world, policy, twin, None, readers, BEATS_PER_COMMIT)
    start = time.process_time()
    loop.run()
    cpu_s = time.process_time() - start
    assert isinstance(loop.driver, Driver)
    states = world.jobs.state[: world.job_count]
    return {
        "jobs": world.job_count,
        "ended": int((states >= JobState.DONE).sum()),
        "nodes": world.node_count,
        "events": world.seq,
        "back_in_python": sum(loop.driver.codes.values()),
        "cpu_s": round(cpu_s, 2),
        "jobs_per_cpu_s": round(world.job_count / cpu_s),
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }


def _against(peer: str, found: dict[str, Any]) -> dict[str, Any]:
    times = found["jobs_per_cpu_s"] / PEERS[peer]
    return found | {"peer_jobs_per_s": PEERS[peer], "times_the_peer": round(times, 1)}
