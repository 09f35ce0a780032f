"""Many jobs that wait: `pending` finds of each what `why` finds, and of equal ones the same."""

from tests.live.kubernetes import made
from tests.live.kubernetes.made import node, pod
from tests.live.kubernetes.test_import import world_of
from tidemill import explain
from tidemill.model.policy import Policy

SAID = "0/3 nodes are available: 3 Insufficient nvidia.com/gpu."


def test_each_of_more_than_can_start_together_hears_the_same():
    """Of 300 teams' jobs each fits alone on what is free: their scheduler holds them, and not
    those before them, whichever is the first.
    """
    waits = [pod(f"x{i}", 8, namespace=f"team{i:03}", created=i, message=SAID) for i in range(300)]
    world = world_of(node("n0"), node("n1"), node("n2"), pod("runs", 8, on="n0"), *waits)
    board = explain.board(world, Policy())
    assert {(row.cause, row.says) for row in board.waiting} == {("none", "Unschedulable")}
    for i in (0, 150, 299):
        answer = explain.why(world, Policy(), world.job_number[f"team{i:03}/x{i}"])
        assert answer.cause == "none"


def test_a_quota_still_tells_equal_jobs_of_two_teams_apart():
    """One namespace may have 4 more GPUs, and 8 are free: its job waits for its quota alone."""
    quota = {
        "apiVersion": "v1", "kind": "ResourceQuota",
        "metadata": {"name": "q", "namespace": "team001", "creationTimestamp": made.moment(0)},
        "spec": {"hard": {"requests.nvidia.com/gpu": "12"}},
    }  # fmt: skip
    waits = [pod(f"x{i}", 8, namespace=f"team{i:03}", created=i) for i in range(3)]
    runs = pod("runs", 8, on="n0", namespace="team001")
    world = world_of(node("n0"), node("n1"), runs, quota, *waits)
    causes = {row.job: row.cause for row in explain.board(world, Policy()).waiting}
    assert causes == {
        "team000/x0": "none", "team001/x1": "over_limit", "team002/x2": "none",
    }  # fmt: skip
