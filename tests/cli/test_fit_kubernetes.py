"""``fit`` and ``fleet`` of a Kubernetes cluster: taints of GPU nodes, and quotas of namespaces."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.shell import tidemill
from tests.live.kubernetes import made
from tests.live.kubernetes.made import Object, node, pod

OF_GPUS = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
OF_TEAM = {"key": "team", "value": "b", "effect": "NoExecute"}
TOLERATES: Object = {"tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}]}
Asks = Callable[..., str]


@pytest.fixture
def imported(tmp_path: Path) -> Callable[..., str]:
    """An import of objects; the journal."""

    def import_(*objects: Object) -> str:
        path, journal = tmp_path / "cluster.json", str(tmp_path / "cluster.sqlite")
        path.write_text(json.dumps(made.listed(*objects)))
        done = tidemill("import", "kubernetes", str(path), "-j", journal, "--force")
        assert done.code == 0, done.err
        return journal

    return import_


def quota(name: str, hard: int, used: int, **spec: object) -> Object:
    """A quota of GPUs of the namespace `ml`."""
    key = "requests.nvidia.com/gpu"
    found = made.owner("v1", "ResourceQuota", name, {"hard": {key: str(hard)}, **spec})
    return found | {"status": {"hard": {key: str(hard)}, "used": {key: str(used)}}}


def fit(journal: str, *words: str) -> str:
    """What `fit` says of the team `ml`."""
    done = tidemill("fit", "-j", journal, "--team", "ml", *words)
    return done.out + done.err


def test_a_taint_called_as_the_resource_keeps_no_request_for_it_out(imported: Asks):
    """As GKE sets it on all GPU nodes: 2 GPUs would run now, and `fleet` counts the sizes."""
    nodes = (node("g0", taints=[OF_GPUS]), node("g1", taints=[OF_GPUS]))
    journal = imported(*nodes, pod("a", 4, on="g0", spec=TOLERATES))
    found = fit(journal, "--gpus", "2")
    assert "would run now" in found
    assert "assumed: it is taken to tolerate the taint `nvidia.com/gpu`" in found
    document = json.loads(tidemill("fleet", "--json", "-j", journal).out)
    (lot,) = document["schedulability"]
    assert [(row["accelerators"], row["now"]) for row in lot["sizes"]] == [
        (1, 12), (2, 6), (4, 3), (8, 1),
    ]  # fmt: skip


def test_other_taints_are_tolerated_by_who_says_so(imported: Asks):
    """A node is kept for team b: it fits with `--tolerate team`, and no other key is known."""
    journal = imported(node("g0", taints=[OF_TEAM]), pod("a", 4, on="g0", spec=TOLERATES))
    assert "a taint that it does not tolerate" in fit(journal)
    assert "would run now" in fit(journal, "--tolerate", "team")
    assert "hint: taints: `team`" in fit(journal, "--tolerate", "gpu")


def test_a_quota_with_scopes_is_not_the_most_that_a_team_may_have(imported: Asks):
    """Two GPUs for pods of the class `high`: others may have more."""
    match = {"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}
    scoped = quota("high", 2, 0, scopeSelector={"matchExpressions": [match]})
    other = quota("best", 1, 0, scopes=["BestEffort"])
    journal = imported(node("g0"), pod("a", 4, on="g0"), scoped, other)
    assert "would run now" in fit(journal, "--gpus", "4")


def test_what_pods_that_wait_use_up_of_a_quota_is_said(imported: Asks):
    """Of 8, 6 are requested, 4 of them by a pod that waits: 4 more are refused, and 2 are not."""
    waits = pod("waits", 4, spec={"nodeSelector": {"no": "node"}})
    journal = imported(
        node("g0"), pod("runs", 2, on="g0"), waits, quota("q", 8, 6), quota("wide", 20, 6)
    )
    found = fit(journal, "--gpus", "4")
    assert "is not let in whole now: the quota `q` of namespace `ml` has 2 of 8 H100 left" in found
    assert "would run now" in fit(journal, "--gpus", "2")


def test_nobody_is_told_to_request_nothing(imported: Asks):
    """A quota of 0: it has to be raised."""
    found = fit(imported(node("g0"), pod("a", 4, on="g0", namespace="x"), quota("q", 0, 0)))
    assert "never fits: the maximum quota of team `ml` is 0" in found
    assert "hint: raise the maximum quota of `ml`" in found


def test_what_is_free_of_nodes_that_take_no_work_is_not_listed_as_free(imported: Asks):
    """One is cordoned, one unreachable with work on it; one takes work."""
    cordoned = node("n1", unschedulable=True)
    lost = node("n2", ready=False, turned=50)
    journal = imported(node("n0"), cordoned, lost, pod("a", 4, on="n2"), pod("b", 1, on="n0"))
    rows = json.loads(tidemill("fleet", "--nodes", "--json", "-j", journal).out)["nodes"]
    assert [(row["state"], row["free_milli"], row["usable_milli"]) for row in rows] == [
        ("ready", 7000, 7000), ("cordoned", 8000, 0), ("unhealthy", 4000, 0),
    ]  # fmt: skip
    shown = tidemill("fleet", "--nodes", "-j", journal)
    assert "free: what new work may have" in shown.err
    before = tidemill("fleet", "--nodes", "-j", journal, "--at", "1m")
    assert "cores and GiB free at an earlier moment: at most these" in before.err


def test_a_job_whose_pods_come_one_by_one_may_be_wider_than_its_quota(imported: Asks):
    """Two pods of 1 GPU, each by itself, and a quota of 1: it is no job that never starts."""
    wide = made.owner("batch/v1", "Job", "wide", {"parallelism": 2, "template": made.template(1)})
    journal = imported(node("g0"), pod("a", 1, on="g0"), wide, quota("q", 1, 1))
    found = tidemill("why", "ml/wide", "-j", journal).out
    assert "requests 1 to 2×1 accelerators" in found
    assert "do not wait" not in found
    assert "never" not in tidemill("pending", "-j", journal).out
