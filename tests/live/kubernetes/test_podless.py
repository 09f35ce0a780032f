"""Jobs without pods: the lines beside their evidence name what shows them, and not their pods."""

from pathlib import Path
from typing import Any

from tests.live.kubernetes import made
from tests.live.kubernetes.made import node, pod, taken
from tests.live.kubernetes.test_import import Object, world_of
from tests.live.kubernetes.test_kueue import NODES, condition, job, template, workload
from tests.live.kubernetes.test_why_foreign import queue
from tidemill import api, explain
from tidemill.ledger.buckets import Bucket
from tidemill.live.history import events
from tidemill.live.kubernetes import translate
from tidemill.live.prices.rules import flat
from tidemill.model.policy import Policy
from tidemill.model.world import World

PENDING = "kubectl get pods -A --field-selector status.phase=Pending"
CAPACITY = (
    "couldn't assign flavors to pod set main: insufficient quota for nvidia.com/gpu in flavor all,"
    " previously considered podsets requests (0) + current podset request (32) > maximum capacity"
    " (16)"
)


def held(message: str, **rest: Any) -> Object:
    """Kueue's workload of a job without quota."""
    told = condition("QuotaReserved", 0, "False", reason="Pending", message=message)
    return workload(told, **rest)


def lines(world: World, name: str, fact: str) -> list[str]:
    """What is printed beside a number, for kubectl."""
    evidence = explain.why(world, Policy(), world.job_number[name]).evidence
    (found,) = (one for one in evidence if one.name == fact)
    return [one.line for one in found.shown_by if one.on == "kubernetes"]


def test_a_job_that_kueue_suspends_is_shown_by_its_workload():
    """What it requests, and who is ahead of it: no pod of it is there, and none of the others."""
    world = world_of(*NODES, job(suspend=True), held("no quota"))
    (line,) = lines(world, "ml/r", "needs")
    assert line.startswith("kubectl get workloads.kueue.x-k8s.io -n ml job-r-1 -o 'custom-columns=")
    assert "requests:.spec.podSets[*].template.spec.containers[*].resources.requests" in (
        line.replace("REQUESTS", "requests")
    )
    assert lines(world, "ml/r", "jobs ahead") == ["kubectl get workloads.kueue.x-k8s.io -A"]


def test_with_and_without_pods_both_are_listed():
    """A pod waits too: the one list has it, and the other the job of Kueue's."""
    world = world_of(
        node("n0"), job(), held("no quota"), pod("w", 8, message="0/1 nodes"),
        pod("x", 8, on="n0"),
    )  # fmt: skip
    both = [PENDING, "kubectl get workloads.kueue.x-k8s.io -A"]
    assert lines(world, "ml/w", "jobs ahead") == both
    assert lines(world, "ml/r", "jobs ahead") == both
    assert lines(world, "ml/w", "needs")[0].startswith("kubectl get pods -n ml -o ")


def test_a_job_of_which_a_quota_refuses_all_pods_is_shown_by_its_events():
    """What the API server said to its owner names the request; the quota is evidence of its own."""
    refused = {
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": "e", "namespace": "ml"},
        "involvedObject": {"kind": "Job", "namespace": "ml", "name": "r"},
        "reason": "FailedCreate", "lastTimestamp": made.moment(60),
        "message": 'pods "r-1" is forbidden: exceeded quota: gpus',
    }  # fmt: skip
    world = world_of(*NODES, job(), refused)
    assert lines(world, "ml/r", "needs") == [
        "kubectl get events -n ml --field-selector involvedObject.name=r"
    ]
    assert lines(world, "ml/r", "jobs ahead") == [
        "kubectl get events -A --field-selector reason=FailedCreate"
    ]


def named(name: str, scheduler: str, **rest: Any) -> Object:
    """A Job of 8 GPUs without pods, whose template names a scheduler."""
    made_of = template(8)
    made_of["spec"]["schedulerName"] = scheduler
    spec = {"parallelism": 1, "completions": 1, "template": made_of}
    return made.owner("batch/v1", "Job", name, spec, **rest)


def refusal(name: str) -> Object:
    """What the API server said of the pods of a Job."""
    return {
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": f"e-{name}", "namespace": "ml"},
        "involvedObject": {"kind": "Job", "namespace": "ml", "name": name},
        "reason": "FailedCreate", "lastTimestamp": made.moment(60),
        "message": f'pods "{name}-0" is forbidden: exceeded quota: none, requested: pods=1,'
                   " used: pods=0, limited: pods=0",
    }  # fmt: skip


def test_of_jobs_without_pods_the_template_says_who_decides_for_them():
    """Pods that are not there yet will be of the scheduler that their template names."""
    shown = taken(node("n0"), named("ours", "tidemill"), named("plain", "default-scheduler"))
    assert translate.translate(shown).deciders == {"ml/ours": "tidemill"}


def test_jobs_whose_pods_a_quota_refuses_wait_for_no_scheduler(tmp_path: Path):
    """In a replay neither side has them in its queue, whoever would decide for them."""
    jobs = [named("ours", "tidemill"), named("plain", "default-scheduler")]
    shown = [node("n0"), pod("x", 8, on="n0"), *jobs, *(refusal(one) for one in ("ours", "plain"))]
    past = translate.translate(taken(*shown))
    history = events.build(
        past.attempts, past.nodes, flat({"": 2_000_000}), None, past.seen_ms, past.queues,
        shapes=past.shapes,
    )  # fmt: skip
    where = str(tmp_path / "seen.sqlite")
    api.keep_history(history._replace(deciders=past.deciders), where)
    found = api.replay(where, Policy(), str(tmp_path / "shadow.sqlite"))
    assert found.report.starts == []
    assert (found.report.others, found.report.others_waited) == (1, 0)
    assert [one.jobs for one in found.report.held_back] == [1]
    assert not found.seen.total().milli_ms[Bucket.QUOTA]
    told = found.seen.waits.figures()
    assert (told.waiting, told.held) == (0, 2)


def test_a_suspended_job_is_shown_by_itself():
    """It is no demand, and what it would request is in its template."""
    world = world_of(*NODES, job(suspend=True))
    (line,) = lines(world, "ml/r", "needs")
    assert line.startswith("kubectl get jobs.batch -n ml r -o 'custom-columns=NAME:.metadata.name")
    assert "REQUESTS:.spec.template.spec.containers[*].resources.requests" in line
    assert lines(world, "ml/r", "jobs ahead") == ["kubectl get jobs.batch -A"]


def buys(world: World) -> list[str]:
    """What would have to be bought for the job, of all that helps."""
    answer = explain.why(world, Policy(), world.job_number["ml/r"])
    return [one.words for one in (answer.fix, *answer.other_fixes) if "add " in one.words]


def wide(*rest: Object) -> World:
    """A gang of 16 pods of 2 GPUs under Kueue, in a cluster of 16 GPUs."""
    gang = job(16, 16)
    gang["spec"]["completionMode"] = "Indexed"
    gang["spec"]["template"]["spec"]["subdomain"] = "r"
    return world_of(*NODES, gang, held(CAPACITY, count=16), *rest, team_by="queue")


def test_nodes_that_the_queue_may_not_use_are_bought_with_the_quota_or_not_at_all():
    """By the books, where they have the quota; else by Kueue's own word for it."""
    by_books = wide(*queue("lq", 16, borrowingLimit="0"))
    answer = explain.why(by_books, Policy(), by_books.job_number["ml/r"])
    assert answer.cause == "over_limit_always", answer.words
    assert buys(by_books) == [
        (
            "raise the maximum quota of team `lq` from 16 to 32 `H100` and the maximum quota of"
            " team `cohort all` from 16 to 32 `H100` and add 2 nodes of 8×`H100`"
        )
    ]
    assert buys(wide()) == [
        "raise the limit that its own scheduler names, and add 2 nodes of 8×`H100`"
    ]
