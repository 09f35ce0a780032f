"""Machines that Karpenter launched and that are no nodes yet: they boot, and nothing is broken."""

from tests.live.kubernetes import made
from tests.live.kubernetes.made import Object, node, pod, pytorch_job, workers
from tests.live.kubernetes.test_import import kept, world_of
from tidemill import explain
from tidemill.explain.answers import Answer
from tidemill.ledger.buckets import Bucket
from tidemill.ledger.unknowns import unknowns_of
from tidemill.model.policy import Policy
from tidemill.model.states import NodeState

JOINS = (
    "wait for the node of `nodeclaim/c1`, which is launched and has not joined yet: 8 accelerators"
    " (kubectl describe nodeclaims.karpenter.sh c1)"
)
FULL = [node("n0"), pod("runs", 8, on="n0")]


def claim(gpus: int = 8, at: int = 3360) -> Object:
    """A NodeClaim whose machine was launched so long after the beginning."""
    labels = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
    one = made.owner("karpenter.sh/v1", "NodeClaim", "c1", {}, labels=labels, status={
        "capacity": {"cpu": "192", "memory": "2048Gi", "nvidia.com/gpu": str(gpus)},
        "conditions": [{"type": "Launched", "status": "True"}],
    })  # fmt: skip
    one["metadata"]["creationTimestamp"] = made.moment(at)
    return one


def why(name: str, *objects: Object) -> Answer:
    world = world_of(*objects)
    return explain.why(world, Policy(), world.job_number[name])


def test_a_machine_that_boots_is_counted_as_one_that_boots():
    """Launched four minutes before the files were made: not Ready since then, and not unhealthy;
    what is measured there is not said to be unknown.
    """
    for at, minutes in ((3360, 4), (-600, 60)):  # within the books, and before they begin
        run = kept(*FULL, claim(at=at))
        world, paid = run.world, run.statement.total().milli_ms
        assert world.nodes.state[world.node_number["nodeclaim/c1"]] == NodeState.BOOTING
        assert (paid[Bucket.NOT_READY], paid[Bucket.UNHEALTHY]) == (8_000 * minutes * 60_000, 0)
        assert Bucket.NOT_READY not in unknowns_of(run.statement)


def test_a_job_is_told_to_wait_for_the_machine_that_boots_if_it_starts_there():
    """All that is there is busy; the machine has what the job requests, or too little of it."""
    answer = why("ml/x", *FULL, claim(), pod("x", 8))
    assert (answer.cause, answer.fix.words) == ("busy", JOINS)
    answer = why("ml/x", *FULL, claim(4), pod("x", 8))
    assert not any("nodeclaim" in fix.words for fix in (answer.fix, *answer.other_fixes))


def test_a_gang_that_lacks_the_machine_that_boots_is_told_to_wait_for_it():
    """One of two replicas is placed; the other fits on what comes, and on less it does not."""
    gang = [pytorch_job("a", 2, 8), *workers("a", 2, 8, ["n0"])]
    answer = why("ml/a", node("n0"), *gang, claim())
    assert answer.fix.words == (
        "wait for the node of `nodeclaim/c1`, which is launched and has not joined yet: what it has"
        " is enough for the rest of `ml/a` (kubectl describe nodeclaims.karpenter.sh c1); or stop"
        " it so that others can use what it holds"
    )
    assert "nodeclaim" not in why("ml/a", node("n0"), *gang, claim(4)).fix.words


def test_a_machine_that_boots_is_not_said_to_be_repaired():
    """A forecast says how long booting is taken to be, and nothing of repairs."""
    world = world_of(*FULL, claim(), pod("x", 8))
    found = explain.eta(world, Policy(), world.job_number["ml/x"])
    assert found.wait is not None
    assert found.wait.p90_ms is not None
    assert found.wait.p90_ms < 3_600_000
    assert "1 node to come: booting takes 10m" in found.assumptions
