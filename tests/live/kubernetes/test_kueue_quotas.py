"""Quotas of Kueue's queues hold for whatever goes through them, whatever teams are."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.cli.shell import tidemill
from tests.live.kubernetes import made
from tests.live.kubernetes.made import Object, pod
from tests.live.kubernetes.queued import Work, flavor, nodes, queue

TEAMS = ("namespace", "queue", "label:team")
MAXIMUM = (
    "couldn't assign flavors to pod set main: insufficient quota for nvidia.com/gpu in flavor all,"
    " previously considered podsets requests (0) + current podset request (32) > maximum"
    " capacity (8)"
)


class Books(NamedTuple):
    """A journal of an import."""

    journal: str

    def why(self, job: str) -> dict[str, Any]:
        """Why a job waits."""
        found: dict[str, Any] = json.loads(self.say("why", job, "--json"))
        return found["answer"]

    def fixes(self, job: str) -> list[str]:
        """What would start it, in words."""
        answer = self.why(job)
        return [one["words"] for one in (answer["fix"], *answer["other_fixes"])]

    def fit(self, *asked: str, team: str = "ml") -> str:
        """Before submitting."""
        return self.say("fit", "--team", team, *asked)

    def say(self, *words: str) -> str:
        """What a command prints."""
        done = tidemill(*words, "-j", self.journal)
        assert done.code == 0, done.err
        return done.out


@pytest.fixture
def read(tmp_path: Path) -> Callable[..., Books]:
    """An import of objects."""

    def read_(*objects: Object, by: str = "namespace") -> Books:
        path, journal = tmp_path / "cluster.json", str(tmp_path / "cluster.sqlite")
        path.write_text(json.dumps(made.listed(*objects)))
        done = tidemill("import", "kubernetes", str(path), "-j", journal, "--force",
                        "--team-by", by)  # fmt: skip
        assert done.code == 0, done.err
        return Books(journal)

    return read_


Reads = Callable[..., Books]
FULL = [*nodes(4), flavor(), *queue("research", 8, local="lq"),
        *Work("runs", 1, 8, "lq").runs("research", "n0")]  # fmt: skip
"""A queue of 8 that is full, in a cluster of 32."""


@pytest.mark.parametrize("by", TEAMS)
def test_what_a_queue_may_never_use_is_not_offered(read: Reads, by: str):
    """32 of a queue of 8, with 24 free: at most 8, and nothing of it would run now."""
    books = read(*FULL, *Work("wide", 4, 8, "lq").waits(MAXIMUM), by=by)
    answer = books.why("ml/wide")
    assert answer["cause"] == "over_limit_always"
    assert answer["certificate"]["fits_now"] == []
    assert "request at most 8, or raise the maximum quota" in answer["fix"]["words"]
    assert "3 replicas" not in answer["words"]
    assert "would run now" not in books.say("why", "ml/wide")


@pytest.mark.parametrize("by", TEAMS)
def test_who_waits_for_its_queue_waits_for_the_jobs_in_it(read: Reads, by: str):
    """8 of 8 are held by another job of the queue: when that ends, this one starts."""
    books = read(*FULL, *Work("next", 1, 8, "lq").waits(), by=by)
    answer = books.why("ml/next")
    assert (answer["cause"], answer["evidence"][0]["value"]) == ("over_limit", 8_000)
    raised, wait = books.fixes("ml/next")
    assert raised.endswith("from 8 to 16 `H100`: then it fits what is free")
    assert wait.startswith("wait until jobs of ")
    assert "never" not in answer["words"]
    assert "no GPU that comes free starts it" not in answer["words"]
    assert json.loads(books.say("pending", "--json"))["rows"][0]["cause"] == "over_limit"


def test_the_queue_is_named_as_kueue_has_it(read: Reads):
    """Beside teams that are namespaces it is no team; the line shows the ClusterQueue."""
    books = read(*FULL, *Work("next", 1, 8, "lq").waits())
    answer = books.why("ml/next")
    assert answer["team"] == "ml"
    assert "Kueue's queue `research` uses 8 of its maximum quota of 8" in answer["words"]
    shown = books.say("why", "ml/next")
    assert "  kubectl describe clusterqueues.kueue.x-k8s.io research\n" in shown
    rows = json.loads(books.say("fleet", "--teams", "--json"))["teams"]
    assert [(row["team"], row["used_milli"]) for row in rows] == [
        ("ml", 8_000), ("queue research", 8_000)
    ]  # fmt: skip


def cohort_of_24(*rest: Object) -> list[Object]:
    """Two queues of 8 and 16 in a cohort, of which the first uses 16 and the other 8."""
    return [
        *nodes(4), flavor(), *queue("research", 8, local="lq", cohortName="all"),
        *queue("vision", 16, local="lq", namespace="cv", cohortName="all"),
        *Work("runs", 2, 8, "lq").runs("research", "n0", "n1"),
        *Work("v", 1, 8, "lq", namespace="cv").runs("vision", "n2"), *rest,
    ]  # fmt: skip


@pytest.mark.parametrize(("by", "team"), [("namespace", "ml"), ("queue", "research")])
def test_fit_knows_a_used_up_cohort(read: Reads, by: str, team: str):
    """24 of 24 are in use and 8 nodes' GPUs are free: nothing more is let in."""
    found = read(*cohort_of_24(), by=by).fit("--gpus", "8", team=team)
    assert "would run now" not in found
    assert "team `cohort all` uses 24 of its maximum quota of 24 `H100`" in found


def test_fit_says_through_which_queue_and_takes_the_best(read: Reads):
    """One of two local queues of a namespace is full, and the other is not."""
    books = read(*FULL, *queue("spare", 8, local="other"))
    found = books.fit("--gpus", "8")
    assert "through Kueue's queue `other`: job `(not submitted)` would run now" in found
    never = books.fit("--gpus", "16", "--per-node", "8")
    assert "through Kueue's queue `lq`: job `(not submitted)` never fits" in never
    assert "through Kueue's queue `other`: job `(not submitted)` never fits" in never


def test_a_job_that_holds_quota_waits_for_nodes(read: Reads):
    """It is admitted, and counts in its queue: that is not what keeps it out, but the next."""
    full = [pod(f"x{i}", 8, on=f"n{i}", namespace="other") for i in range(2)]
    let_in = Work("in", 1, 8, "lq").runs("research")
    books = read(*nodes(2), flavor(), *queue("research", 8, local="lq"), *full, *let_in,
                 *Work("next", 1, 8, "lq").waits())  # fmt: skip
    assert books.why("ml/in")["cause"] == "busy"
    assert books.why("ml/next")["cause"] == "over_limit"
    told = read(*nodes(2), flavor(), *queue("research", 8, local="lq"), *full, *let_in, by="queue")
    assert told.why("ml/in")["cause"] == "busy"


def test_work_beside_kueue_does_not_count_in_its_queues(read: Reads):
    """A pod of the namespace that no queue admitted holds 8: the queue has all of its own."""
    books = read(*nodes(3), flavor(), *queue("research", 8, local="lq"), pod("x", 8, on="n0"))
    assert "would run now" in books.fit("--gpus", "8")
    assert "never fits" in books.fit("--gpus", "16", "--per-node", "8")


def test_a_queue_without_quota_for_a_type_lets_in_nothing_of_it(read: Reads):
    """Its flavor is the nodes of A100; what is free of H100 is not for it."""
    a100 = made.node("a0", labels={"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"})
    of = flavor("a100", **{"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"})
    books = read(*nodes(1), a100, of, *queue("research", {"a100": 8}, local="lq"),
                 pod("x", 8, on="a0"))  # fmt: skip
    found = books.fit("--gpus", "8", "--kind", "H100")
    assert "never fits: the maximum quota of Kueue's queue `research` is 0 `H100`" in found


@pytest.mark.parametrize("by", TEAMS)
def test_a_plain_job_is_admitted_whole(read: Reads, by: str):
    """Four pods that work each by itself: Kueue lets in all of them, or none; not one to four."""
    books = read(*FULL, *Work("plain", 4, 2, "lq", is_gang=False).waits(), by=by)
    assert books.why("ml/plain")["asks"].startswith("4×2 ")
    (row,) = json.loads(books.say("pending", "--json"))["waiting"]
    assert (row["accelerator_milli"], row["least_milli"]) == (8_000, 8_000)


def test_a_job_that_may_be_admitted_in_part_says_with_how_many(read: Reads):
    """`kueue.x-k8s.io/job-min-parallelism` is 2: in the workload it is the `minCount`."""
    note = {"annotations": {"kueue.x-k8s.io/job-min-parallelism": "2"}}
    part = Work("part", 4, 2, "lq", is_gang=False, metadata=note)
    books = read(*FULL, *part.waits(pod_set={"minCount": 2}))
    assert books.why("ml/part")["asks"].startswith("2 to 4×2 ")
    alone = read(*FULL, part.job(suspend=True))
    assert alone.why("ml/part")["asks"].startswith("2 to 4×2 ")


TWO = [
    made.node("r0", labels={"pool": "reserved"}), made.node("s0", labels={"pool": "spot"}),
    flavor("reserved", pool="reserved"), flavor("spot", pool="spot"),
]  # fmt: skip
"""Eight H100 of each of two flavors."""


@pytest.mark.parametrize("by", TEAMS)
def test_a_gang_has_the_quota_of_one_flavor(read: Reads, by: str):
    """8 and 8 of the same GPU type: Kueue admits 12 by neither, and says so; 8 fit one of them."""
    both = queue("research", {"reserved": 8, "spot": 8}, local="lq")
    books = read(*TWO, *both, *Work("wide", 3, 4, "lq").waits(MAXIMUM), by=by)
    answer = books.why("ml/wide")
    assert answer["cause"] == "over_limit_always"
    assert "Kueue's queue `research` (flavor `reserved`) is 8 `H100`" in answer["words"]
    assert [one["replicas"] for one in answer["certificate"]["fits_now"]] == [2]


@pytest.mark.parametrize(("by", "team"), [("namespace", "ml"), ("queue", "research")])
def test_work_goes_to_the_first_flavor_that_has_quota(read: Reads, by: str, team: str):
    """The quota of `reserved` is used up: 8 run on the nodes of `spot`, and 16 never do."""
    both = queue("research", {"reserved": 8, "spot": 8}, local="lq")
    runs = Work("runs", 1, 8, "lq").runs("research", "r0", of="reserved")
    books = read(*TWO, *both, *runs, by=by)
    assert "would run now" in books.fit("--gpus", "8", team=team)
    assert "never fits" in books.fit("--gpus", "16", "--per-node", "8", team=team)


@pytest.mark.parametrize(("by", "team"), [("namespace", "ml"), ("queue", "research")])
def test_what_is_free_on_nodes_of_another_flavor_is_not_for_it(read: Reads, by: str, team: str):
    """Its queue has quota of `reserved`, whose node is taken by work beside Kueue."""
    books = read(*TWO, *queue("research", {"reserved": 8}, local="lq"),
                 *Work("runs", 1, 1, "lq").runs("research"),
                 pod("x", 8, on="r0", namespace="other"), by=by)  # fmt: skip
    found = books.fit("--gpus", "4", team=team)
    assert "would run now" not in found
    assert "not enough is free" in found


@pytest.mark.parametrize("by", TEAMS)
def test_a_flavor_of_several_types_has_one_quota_for_all(read: Reads, by: str):
    """12 of whatever is free, of which 8 H100 are used: 4 are left, also of the A100."""
    a100 = made.node("a0", labels={"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"})
    books = read(*nodes(2), a100, flavor(), *queue("research", 12, local="lq"),
                 *Work("runs", 1, 8, "lq").runs("research", "n0"),
                 *Work("next", 2, 4, "lq").waits(), by=by)  # fmt: skip
    answer = books.why("ml/next")
    assert answer["cause"] == "over_limit"
    assert "uses 8 of its maximum quota of 12 GPUs of all types" in answer["words"]
    assert [one["replicas"] for one in answer["certificate"]["fits_now"]] == [1]
    if by == "namespace":
        assert "is 12 GPUs of all types" in books.fit("--gpus", "16", "--per-node", "8")
        assert "would run now" in books.fit("--gpus", "4", "--kind", "A100-80GB")


def test_a_flavor_lets_work_tolerate_the_taints_of_its_nodes(read: Reads):
    """Kueue adds its tolerations when it admits: the taint is not what keeps the job out."""
    taint = {"key": "team", "value": "x", "effect": "NoSchedule"}
    of = flavor()
    of["spec"]["tolerations"] = [{"key": "team", "operator": "Exists"}]
    behind = [made.node(f"n{i}", taints=[taint]) for i in range(2)]
    runs = Work("runs", 1, 8, "lq").runs("research", "n0")
    books = read(*behind, of, *queue("research", 8, local="lq"), *runs,
                 *Work("next", 1, 8, "lq").waits())  # fmt: skip
    assert books.why("ml/next")["cause"] == "over_limit"
    spare = read(*behind, of, *queue("research", 16, local="lq"), *runs)
    assert "would run now" in spare.fit("--gpus", "8")


def test_what_others_do_not_lend_is_not_to_be_had(read: Reads):
    """8 of its own and 4 of 16 that the other lends: 12 at most, however many nodes are free."""
    shared = [*queue("research", 8, local="lq", cohortName="all"),
              *queue("vision", 16, namespace="cv", cohortName="all", lendingLimit="4")]  # fmt: skip
    runs = Work("runs", 1, 8, "lq").runs("research", "n0")
    books = read(*nodes(5), flavor(), *shared, *runs)
    assert "would run now" in books.fit("--gpus", "4")
    assert "would run now instead: 4 GPUs" in books.fit("--gpus", "8")
    assert "is 12 `H100`, it requests 16" in books.fit("--gpus", "16", "--per-node", "8")
    few = read(*nodes(2), flavor(), *shared, *runs)  # a quota that is kept back keeps no node free
    assert "would run now" in few.fit("--gpus", "4")


@pytest.mark.parametrize("by", TEAMS)
def test_nobody_passes_the_first_in_a_strict_queue(read: Reads, by: str):
    """8 wait for quota, of which 4 are left: nobody who comes later has those, nor it itself."""
    strict = queue("research", 12, local="lq", queueingStrategy="StrictFIFO")
    runs, first = Work("runs", 1, 8, "lq"), Work("first", 1, 8, "lq").waits()
    small = Work("small", 1, 4, "lq").waits("")
    books = read(*nodes(2), flavor(), *strict, *runs.runs("research", "n0"), *first, *small, by=by)
    assert "would run now" not in books.say("why", "ml/first")
    reason = books.why("ml/small")["reason"]
    assert "nobody passes in its queue (StrictFIFO), and ml/job-first goes first" in reason
    if by != "label:team":
        found = books.fit("--gpus", "4", team="ml" if by == "namespace" else "research")
        assert "nobody passes in its queue (StrictFIFO), and `ml/first` and `ml/small` go" in found


def test_who_is_not_looked_at_yet_is_not_said_to_lack_quota(read: Reads):
    """Kueue has said nothing of it, and there is quota."""
    books = read(*nodes(2), flavor(), *queue("research", 16, local="lq"),
                 *Work("new", 1, 8, "lq").waits(""))  # fmt: skip
    answer = books.why("ml/new")
    assert "Kueue has not decided: it waits in its queue (kubectl describe" in answer["reason"]
    assert answer["cause"] == "none"
    assert "no GPU that comes free" not in answer["words"]


CLOSED = {
    "type": "Active", "status": "False", "reason": "FlavorNotFound",
    "message": "Can't admit new workloads: references missing ResourceFlavor(s): gone.",
}  # fmt: skip


@pytest.mark.parametrize(("told", "says"), [
    ({"stopPolicy": "Hold"}, "it is stopped (stopPolicy: Hold)"),
    ({"stopPolicy": "HoldAndDrain"}, "it is stopped (stopPolicy: HoldAndDrain)"),
    ({"status": {"conditions": [CLOSED]}}, "it is not active: Can't admit new workloads"),
])  # fmt: skip
def test_a_queue_that_is_stopped_lets_nothing_in(read: Reads, told: Object, says: str):
    """Whatever quota it has, and whatever is free."""
    books = read(*nodes(1), flavor(), *queue("research", 8, local="lq", **told),
                 pod("x", 1, on="n0"))  # fmt: skip
    assert f"its queue lets nothing in: {says}" in books.fit("--gpus", "4")
    held = queue("research", 8, local="lq")
    held[1]["spec"]["stopPolicy"] = "Hold"
    books = read(*nodes(1), flavor(), *held, pod("x", 1, on="n0"))
    assert "its queue lets nothing in: it is stopped" in books.fit("--gpus", "4")


def test_who_was_preempted_waits_for_quota_and_stops_nobody(read: Reads):
    """Kueue says of the one that it preempted whom that was for."""
    said = "Preempted to accommodate a workload (UID: u, JobUID: j) due to prioritization"
    books = read(*FULL, *Work("gone", 1, 8, "lq").waits(said))
    answer = books.why("ml/gone")
    assert answer["cause"] == "over_limit"
    assert "was preempted, and waits for quota again" in answer["reason"]


def test_a_pod_group_that_is_not_whole_is_shown_by_its_pods(read: Reads):
    """Kueue's groups are labels: there is no object that kubectl could describe."""
    told: dict[str, Any] = {
        "labels": {"kueue.x-k8s.io/queue-name": "lq", "kueue.x-k8s.io/pod-group-name": "g"},
        "annotations": {"kueue.x-k8s.io/pod-group-total-count": "3"},
        "spec": {"schedulingGates": [{"name": "kueue.x-k8s.io/admission"}]},
    }  # fmt: skip
    two = [pod(f"g-{i}", 2, **told) for i in range(2)]
    reason = read(*nodes(1), flavor(), *queue("research", 8, local="lq"), *two).why("ml/g")[
        "reason"
    ]
    assert "1 of the 3 pods that it needs to start does not exist" in reason
    assert "kubectl get pods -n ml -l kueue.x-k8s.io/pod-group-name=g" in reason


def test_a_queue_that_may_preempt_says_so(read: Reads):
    """What Kueue stops for a new job is not played forward: what it waits for is no promise."""
    rules = {"withinClusterQueue": "LowerPriority", "reclaimWithinCohort": "Never"}
    books = read(*nodes(2), flavor(), *queue("research", 8, local="lq", preemption=rules),
                 *Work("runs", 1, 8, "lq").runs("research", "n0"))  # fmt: skip
    found = books.fit("--gpus", "8", "--priority", "10")
    assert "its queue may preempt others for it (withinClusterQueue: LowerPriority)" in found
