"""Claims that select, and claims that are shared, as a real API server has them (DRA)."""

import json

from tests.live.kubernetes.beside import shown
from tests.live.kubernetes.made import taken
from tests.live.kubernetes.scheduling.test_placing import PODS
from tests.rigs.kubernetes.claimed import CLAIMS, TEMPLATES, publish
from tests.rigs.kubernetes.cluster import Cluster
from tests.rigs.kubernetes.wanted import claim, claim_spec, claim_template, claiming, device, pod
from tidemill import api, explain
from tidemill.explain import claim_sharers as sharing
from tidemill.journal import claim_sharers
from tidemill.live.history import events
from tidemill.live.kubernetes.translate import translate
from tidemill.model.policy import Policy

KINDS = "nodes,pods,resourceslices,resourceclaims,resourceclaimtemplates,deviceclasses"
OTHER = "device.attributes['gpu.nvidia.com'].productName.lowerAscii().matches('^.*b200.*$')"


def test_what_is_said_of_claims_is_shown_by_kubectl(rig: Cluster):
    """A pod whose claim selects what no node publishes, and two that wait with one claim.

    Each line beside the proof runs, and shows the devices, the expression or the pod.
    """
    publish(rig, {"n0": [device(f"gpu-{i}") for i in range(2)]})
    rig.create(TEMPLATES, claim_template("b200", claim_spec(1, OTHER)))
    rig.create(CLAIMS, claim("pair", claim_spec(4)))
    rig.create(PODS, pod("other", 0, **claiming(template="b200")))
    for name in ("first", "second"):
        rig.create(PODS, pod(name, 0, **claiming(claim="pair")))
    rig.wait_for("they are told", lambda: all(
        one["status"].get("conditions") for one in rig.pods("ml").values()
    ))  # fmt: skip
    objects = json.loads(rig.kubectl("get", KINDS, "-A", "-o", "json"))["items"]
    past = translate(taken(*objects))
    history = events.build(past.attempts, past.nodes, until_ms=past.seen_ms + 1000,
                           shapes=past.shapes)  # fmt: skip
    kept = history._replace(claim_sharers=past.claim_sharers).facts()
    world = claim_sharers.put_back(api.keep_history(history).world, kept, "journal")

    found = explain.why(world, Policy(), world.job_number["ml/other"])
    assert found.cause == "impossible_label"
    told = {
        line.line: shown(rig, line.line)
        for fact in found.evidence for line in fact.shown_by if line.on == "kubernetes"
    }  # fmt: skip
    assert "productName: string: NVIDIA H100" in told["kubectl get resourceslices -o yaml"]
    asked = told["kubectl get resourceclaims,resourceclaimtemplates -n ml -o yaml"]
    assert "matches('^.*b200.*$')" in asked
    twice = "kubectl get resourceslices --field-selector spec.nodeName=n0"
    assert "n0-gpu.nvidia.com" in shown(rig, twice), "as is said of a node with a plug-in too"

    names = {*world.job_names} & {"ml/first", "ml/second"}
    (second,) = {"ml/first", "ml/second"} - names
    sharer = sharing.of(world, second)
    assert sharer is not None
    words = sharing.words(world, sharer)
    assert f"waits with claim `pair`, which it shares with job `{min(names)}`" in words
    line = words.rpartition("(")[2].removesuffix(")")
    assert second.rpartition("/")[2] in shown(rig, line)
