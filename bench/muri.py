"""Muri's table: SRTF and SRSF on two traces of 64 GPUs, through the loop, the twin and the checks.

Stopping and starting are free there: jobs save every millisecond at no cost, leave and come up at
once, and their owners know how long they run. Everything else is the scheduler as it always is.
"""

import time
from typing import Any

import numpy as np
from msgspec.structs import replace

from bench.traces import folder
from tidemill import api
from tidemill.model.measures import DAY_MS, FOREVER_MS
from tidemill.model.policy import Policy
from tidemill.model.rows import Checkpointing
from tidemill.model.states import JobState
from tidemill.twin.arrivals import Arrival
from tidemill.twin.backend import Twin
from tidemill.twin.traces import muri
from tidemill.twin.traces.options import Options

TABLE = {
    ("trace1", "shortest"): (1_377_148.986, 26_034_155.456),
    ("trace1", "smallest"): (975_401.097, 26_000_869.494),
    ("trace3", "shortest"): (190_377.377, 8_173_902.669),
    ("trace3", "smallest"): (183_965.978, 8_173_902.669),
}
"""Average job completion time and makespan in s, by an independent simulator."""
PEER_JOBS_PER_CPU_S = 500  # that simulator on trace1


def run(traces: tuple[str, ...] = ("trace1", "trace3")) -> dict[str, Any]:
    """Play each trace in each order and compare."""
    found = {}
    for (trace, order), (jct_s, makespan_s) in TABLE.items():
        if trace in traces:
            found[f"{trace} {order}"] = _compare(played(trace, order), jct_s, makespan_s)
    return found


def played(trace: str, order: str) -> dict[str, float]:
    """One trace in one order: average completion time, makespan, evictions and CPU time."""
    story = muri.load(folder() / "muri" / f"{trace}.csv", Options(work_ppm=1_015_000))
    story = replace(story, arrivals=tuple(_free_to_stop(arrival) for arrival in story.arrivals))
    policy = Policy(
        order=order, may_reorder=True, patience_ms=FOREVER_MS // 4,
        placement="pack", backfill="none",
    )  # fmt: skip
    start = time.process_time()
    done = api.run(Twin.from_trace(story), policy, end_ms=400 * DAY_MS)
    cpu_s = time.process_time() - start
    jobs, count = done.world.jobs, done.world.job_count
    assert (jobs.state[:count] == JobState.DONE).all(), "a job did not end"
    return {
        "jct_s": float(np.mean(jobs.since_ms[:count] - jobs.submit_ms[:count])) / 1000,
        "makespan_s": int(jobs.since_ms[:count].max()) / 1000,
        "jobs": count,
        "restarts": int(jobs.attempt[:count].sum()) - count,
        "events": done.world.seq,
        "cpu_s": cpu_s,
    }


def _free_to_stop(arrival: Arrival) -> Arrival:
    saving = Checkpointing(interval_ms=1, cost_ms=0)
    job = replace(arrival.job, estimate_ms=arrival.work_ms, checkpointing=saving)
    return arrival._replace(job=job)


def _compare(found: dict[str, float], jct_s: float, makespan_s: float) -> dict[str, Any]:
    rate = found["jobs"] / found["cpu_s"]
    return {
        "average_jct_s": round(found["jct_s"], 3),
        "published_jct_s": jct_s,
        "off_by": f"{found['jct_s'] / jct_s - 1:+.4%}",
        "makespan_s": found["makespan_s"],
        "makespan_off_by": f"{found['makespan_s'] / makespan_s - 1:+.4%}",
        "restarts": found["restarts"],
        "events": found["events"],
        "cpu_s": round(found["cpu_s"], 2),
        "jobs_per_cpu_s": round(rate),
        "times_the_peer": round(rate / PEER_JOBS_PER_CPU_S, 1),
    }
