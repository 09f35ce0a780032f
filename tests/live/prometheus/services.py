"""Two hours of services as their engines showed them, and what the cluster said of their pods."""

from typing import Any

from tests.live.kubernetes import made
from tests.rigs.prometheus.series import BEGIN_S, Recorded, dcgm, steady

FIRST_S = made.BEGIN_MS // 1000 - BEGIN_S
"""When the story of the services begins, in seconds of the rig."""
LENGTH_S = 7200
EVERY_S = 30
QUIET_S = range(3600, 5400)
"""When nobody asks chat-0 for anything."""
RESTART_S = 1790
"""When its engine began again, with all counters at 0."""
BOUNDS = ("0.1", "0.25", "1.0", "2.5", "+Inf")
SHARES = (0, 90, 9, 1, 0)
"""Of a hundred requests, how many lie in each bucket of the time to the first token."""
REPLICA_SET = ("apps/v1", "ReplicaSet", "chat-7d9f")


def asked_s(at: int) -> int:
    """Requests to chat-0 up to a second: one a second, none for half an hour, then two a second."""
    return min(at, QUIET_S.start) + 2 * max(0, at - QUIET_S.stop)


def counted(at: int) -> int:
    """The same as its counter shows it."""
    return asked_s(at) if at < RESTART_S else asked_s(at) - asked_s(RESTART_S)


def visible(start: int = 0, end: int = LENGTH_S) -> int:
    """What the counter grew by in samples from a second to before another, by hand."""
    grown = 0
    for at in range(EVERY_S, LENGTH_S, EVERY_S):
        before, now = counted(at - EVERY_S), counted(at)
        grown += (now - before if now >= before else now) if start <= at < end else 0
    return grown


def _at(seconds: int) -> float:
    return float(FIRST_S + seconds)


def _labels(pod: str, **more: str) -> dict[str, str]:
    return {"namespace": "ml", "pod": pod, "instance": "10.0.0.1:8000", "job": "ml/engines",
            "model_name": "llama", **more}  # fmt: skip


def engine(pod: str, is_asked: bool) -> list[Recorded]:
    """The series of one vLLM server."""
    times = range(0, LENGTH_S, EVERY_S)
    told = {
        "vllm:request_success_total": (1, {"finished_reason": "stop"}),
        "vllm:prompt_tokens_total": (100, {}),
        "vllm:generation_tokens_total": (50, {}),
    }
    found = [
        Recorded(metric, _labels(pod, **more), [(_at(s), each * counted(s) * is_asked)
                 for s in times], is_counter=True)
        for metric, (each, more) in told.items()
    ]  # fmt: skip
    for metric, level in (("vllm:num_requests_running", 3), ("vllm:num_requests_waiting", 1)):
        is_busy = [s for s in times if s not in QUIET_S and is_asked]
        samples = [(_at(s), float(level if s in is_busy else 0)) for s in times]
        found.append(Recorded(metric, _labels(pod), samples))
    below = 0
    for bound, share in zip(BOUNDS, SHARES, strict=True):
        below += share
        samples = [(_at(s), counted(s) * is_asked * below / 100) for s in times]
        labels = _labels(pod, le=bound)
        found.append(Recorded("vllm:time_to_first_token_seconds_bucket", labels, samples))
    return found


def whole() -> list[Recorded]:
    """Every series: two vLLM replicas, one Triton, a trainer's own engine, and a router."""
    triton = {"namespace": "ml", "pod": "embed-0", "instance": "10.0.0.3:8002", "model": "bge"}
    requests = [(_at(s), float(5 * s)) for s in range(0, LENGTH_S, EVERY_S)]
    busy = dcgm("s1", 2, namespace="ml", pod="chat-1", container="main")
    first = [(FIRST_S + s, value) for s, value in steady(100, 0, LENGTH_S)]
    twice = _labels("chat-0", job="ml/engines-by-service", finished_reason="stop")
    copies = [(_at(s), counted(s)) for s in range(0, LENGTH_S, 2 * EVERY_S)]
    return [
        *engine("chat-0", is_asked=True), *engine("chat-1", is_asked=False),
        *engine("trainer-0", is_asked=False), *engine("router-0", is_asked=True),
        Recorded("vllm:request_success_total", twice, copies, is_counter=True),
        Recorded("nv_inference_request_success", triton, requests),
        Recorded("DCGM_FI_DEV_GPU_UTIL", busy, first),
        *_devices(),
    ]  # fmt: skip


def _devices() -> list[Recorded]:
    """What the GPU of chat-1 and the CPUs of s1 measured; errors of two drivers."""
    told = dcgm("s1", 2, namespace="ml", pod="chat-1", container="main")
    times = range(0, LENGTH_S, EVERY_S)
    figures = {
        "DCGM_FI_PROF_SM_ACTIVE": 0.3, "DCGM_FI_PROF_DRAM_ACTIVE": 0.1,
        "DCGM_FI_DEV_POWER_USAGE": 240,
    }  # fmt: skip
    found = [
        Recorded(metric, told, [(_at(s), float(value)) for s in times])
        for metric, value in figures.items()
    ]
    for labels, xid, since in ((told, 79, 3600), (dcgm("s2", 5), 48, 3900)):
        errors = [(_at(s), float(xid if s >= since else 0)) for s in times]
        found.append(Recorded("DCGM_FI_DEV_XID_ERRORS", labels, errors))
    for mode, share in (("iowait", 0.2), ("idle", 0.5)):
        cpu = {"cpu": "0", "mode": mode, "instance": "s1:9100"}
        waited = [(_at(s), share * s) for s in times]
        found.append(Recorded("node_cpu_seconds_total", cpu, waited, is_counter=True))
    return found


def cluster() -> dict[str, Any]:
    """What the cluster shows after two hours, as `kubectl get -o json` prints it."""
    job = ("batch/v1", "Job", "trainer")
    return made.listed(
        made.node("s1", 8, at=LENGTH_S),
        made.node("s2", 8, at=LENGTH_S, ready=False, turned=4000),
        made.pod("late-0", 8, created=4500, message="0/2 nodes are available"),
        made.pod("chat-0", 2, on="s1", owner=REPLICA_SET),
        made.pod("chat-1", 1, on="s1", owner=REPLICA_SET),
        made.pod("embed-0", 1, on="s1", owner=("apps/v1", "StatefulSet", "embed")),
        made.pod("silent-0", 1, on="s1", owner=("apps/v1", "StatefulSet", "silent")),
        made.owner("batch/v1", "Job", "trainer", {"template": made.template(1)}),
        made.pod("trainer-0", 1, on="s1", owner=job),
    )
