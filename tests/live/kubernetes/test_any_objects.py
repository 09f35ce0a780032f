"""No mix of objects breaks the import, or books that add up exactly."""

from collections import Counter
from copy import deepcopy
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.ledger.sums import amounts
from tests.live.kubernetes import made
from tests.live.kubernetes.made import node, pod, pytorch_job, taken, template
from tidemill.ledger.reader import Ledger
from tidemill.ledger.statement import Statement
from tidemill.live.history import events
from tidemill.live.kubernetes import translate
from tidemill.live.kubernetes.pods import request_of
from tidemill.live.prices.rules import unpriced
from tidemill.model.errors import SpecError

Object = dict[str, Any]
OF = ("kubeflow.org/v1", "PyTorchJob", "g")
JOB = ("batch/v1", "Job", "q")
GPUS: st.SearchStrategy[Any] = st.sampled_from([
    1, 2, 8, 16, 0, {"nvidia.com/mig-1g.10gb": 1}, {"nvidia.com/mig-3g.40gb": 2},
    {"nvidia.com/gpu.shared": 1}, {"nvidia.com/gpu": 1, "amd.com/gpu": 1},
])  # fmt: skip
BENT = st.sampled_from([None, 7, "text", [], {}, [1], {"a": 1}, -1, True, "2026-11-02T08:00:00"])
"""What may stand in a field by mistake."""


@st.composite
def nodes(draw: st.DrawFn) -> Object:
    """A node: whole, shared or cut GPUs; Ready or not; labelled or not."""
    form = draw(st.sampled_from(["whole", "shared", "mig", "bare"]))
    rest: Object = {"ready": draw(st.booleans()), "unschedulable": draw(st.booleans()),
                    "since": draw(st.sampled_from([-86_400, 600, 4000])),
                    "turned": draw(st.integers(-100, 4000))}  # fmt: skip
    if form == "shared":
        rest["labels"] = {"nvidia.com/gpu.replicas": "4", "nvidia.com/gpu.count": "2"}
    elif form == "mig":
        rest["amounts"] = {"nvidia.com/gpu": "2", "nvidia.com/mig-1g.10gb": "7",
                           "nvidia.com/mig-3g.40gb": "2"}  # fmt: skip
        rest["labels"] = {"nvidia.com/gpu.count": "4"}
    elif form == "bare":
        rest["amounts"] = {"nvidia.com/gpu": None}
        rest["labels"] = {"nvidia.com/gpu.count": "8"}
    return node(draw(st.sampled_from(["n0", "n1", "n2"])), **rest)


@st.composite
def pods(draw: st.DrawFn) -> Object:
    """A pod of a gang, of a Job, of a Deployment or of nobody, anywhere in its life."""
    created = draw(st.integers(0, 3000))
    bound = created + draw(st.integers(-60, 600))
    on = draw(st.sampled_from(["", "n0", "n1", "n2", "unlisted"]))
    end = draw(st.one_of(st.none(), st.integers(bound - 60, bound + 900))) if on else None
    owner = draw(st.sampled_from([None, OF, OF, JOB, ("apps/v1", "ReplicaSet", "web")]))
    phase = draw(st.sampled_from(["Succeeded", "Failed"])) if end is not None else ""
    return pod(
        f"p{draw(st.integers(0, 30))}", draw(GPUS), on=on, created=created, bound=bound,
        up=bound + draw(st.integers(-30, 300)), end=end, phase=phase, owner=owner,
        labels=draw(st.sampled_from([{}, {"scheduling.x-k8s.io/pod-group": "pg"}])),
        message="0/3 nodes are available: 3 Insufficient nvidia.com/gpu.",
    )  # fmt: skip


@st.composite
def objects(draw: st.DrawFn) -> list[Object]:
    """A cluster, with a field of some of its objects bent."""
    found = draw(st.lists(nodes(), min_size=1, max_size=4)) + draw(st.lists(pods(), max_size=14))
    found += draw(st.lists(st.sampled_from([
        pytorch_job("g", 3, 2), made.owner("batch/v1", "Job", "q", {"template": template(1)}),
        made.owner("scheduling.x-k8s.io/v1alpha1", "PodGroup", "pg", {"minMember": 2}),
    ]), max_size=3))  # fmt: skip
    found = deepcopy(found)
    for one in draw(st.lists(st.sampled_from(found), max_size=2)):
        part = one[draw(st.sampled_from(["metadata", "spec", "status"]))]
        if isinstance(part, dict) and part:
            part[draw(st.sampled_from(sorted(part)))] = draw(BENT)
    return found


@given(objects())
@settings(max_examples=60, deadline=None)
def test_no_mix_of_objects_breaks_the_import_or_the_books(found: list[Object]):
    """Paid is the sum of the buckets, whatever overlaps, contradicts itself or makes no sense."""
    past = translate.translate(taken(*found))
    try:
        history = events.build(
            past.attempts, past.nodes, unpriced, None, max(past.seen_ms, 1),
            past.queues, shapes=past.shapes,
        )  # fmt: skip
    except SpecError:
        return
    ledger = Ledger()
    for batch in history.batches():
        ledger.read_batch(batch)
    statement = Statement(ledger)
    assert sum(amounts(statement, "bucket").values()) == statement.total().paid_milli_ms
    assert not [b for b, milli in Counter(amounts(statement, "bucket")).items() if milli < 0]


def test_what_is_read_once_is_what_each_pod_requests():
    """Two pods of one template in all but name, image and token; another volume is another."""
    spread = {"topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "maxSkew": 1,
              "labelSelector": {"matchLabels": {"a": "b"}}, "matchLabelKeys": ["run"]}  # fmt: skip
    one: Object = pod("one", 2, spec={"volumes": [{"name": "token-1", "projected": {}}]})["spec"]
    other = deepcopy(one) | {"nodeName": "n1", "volumes": [{"name": "token-2", "projected": {}}]}
    other["containers"][0]["image"] = "another"
    assert request_of(one) is request_of(other)
    claimed = one | {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]}
    assert request_of(claimed).volumes == ("data",)
    run = one | {"topologySpreadConstraints": [spread]}
    first, second = (request_of(run, {"run": name}) for name in ("r1", "r2"))
    assert first.near != second.near
