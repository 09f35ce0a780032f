"""Gangs that could be smaller: never larger than their owner's own number, and whole if tied."""

import asyncio
from typing import Any

import pytest

from tests.live.kubernetes import made
from tests.live.kubernetes.scheduling.pretended import Object
from tests.live.kubernetes.scheduling.test_holding import Story
from tidemill.live.kubernetes.scheduling.differ import FleetRules
from tidemill.model.topology import Tier, Topology

JOB, INDEX = "batch/v1", "batch.kubernetes.io/job-completion-index"
RACK = "topology.kubernetes.io/rack"
IN_GROUP = {"scheduling.x-k8s.io/pod-group": "two"}
NEAR_ITSELF = {
    "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": RACK, "labelSelector": {"matchLabels": {"app": "e1"}}}
    ]}
}  # fmt: skip


def story(nodes: int) -> Story:
    """Nodes of 8, a tier `rack`, and owners that may be asked for another number of pods."""
    made_up = Story(*[8] * nodes)
    made_up.scheduler.let_resize()
    made_up.scheduler.differ.rules = FleetRules((), Topology((Tier("rack", RACK),)))
    return made_up


def group(least: int) -> Object:
    return made.owner("scheduling.x-k8s.io/v1alpha1", "PodGroup", "two", {"minMember": least})


def job(told: Story, name: str, pods: int, gpus: int = 8, **rest: Any) -> None:
    """An indexed Job whose pods find each other; ``rest`` as ``made.pod``."""
    template = made.template(gpus, subdomain=name, schedulerName="tidemill")
    spec = {"completionMode": "Indexed", "parallelism": pods, "completions": pods}
    told.server.put(made.owner(JOB, "Job", name, spec | {"template": template}))
    labels, about = rest.pop("labels", {}), {"schedulerName": "tidemill", "subdomain": name}
    for i in range(pods):
        told.server.make(
            f"{name}-{i}", gpus, owner=(JOB, "Job", name), labels={INDEX: str(i), **labels},
            spec=about | rest.get("spec", {}), annotations=rest.get("notes", {}),
        )  # fmt: skip


def rest(told: Story) -> None:
    """Until all is done that can be."""
    told.server.deliver(told.scheduler.view, len(told.server.news))
    asyncio.run(told.scheduler.rest())


LEAST = {"tidemill/gang-least": "2"}


def test_a_job_is_not_made_larger_where_its_group_waits_for_another_job():
    """3 actors and then 3 learners of a group of 6: nobody is resized, and all six start."""
    told = story(6)
    told.server.put(group(6))
    job(told, "actors", 3, labels=IN_GROUP, notes=LEAST)
    told.rest()
    assert told.bound() == {}
    assert told.held()["ml/two"][0] == "WaitingForGang"
    assert "3 of the 6 pods" in told.held()["ml/two"][1]
    job(told, "learners", 3, labels=IN_GROUP)
    told.rest()
    assert len(told.bound()) == 6
    assert {what for _, what in told.server.asked} == {"binding"}


def test_workers_of_a_group_that_waits_for_its_launcher_are_no_more_than_they_were():
    """3 workers of a group of 4, then a launcher without GPUs: no fourth worker is asked for."""
    told = story(2)
    told.server.put(group(4))
    job(told, "workers", 3, 4, labels=IN_GROUP, notes=LEAST)
    told.rest()
    assert told.bound() == {}
    job(told, "launcher", 1, 0, labels=IN_GROUP)
    told.rest()
    assert {f"workers-{i}" for i in range(3)} < {*told.bound()}
    assert {what for _, what in told.server.asked} == {"binding"}


def test_two_jobs_of_one_gang_by_annotation_keep_its_size():
    """The first of two Jobs of 3 in a gang of 6 is not asked for 6, though it works with 2."""
    told = story(6)
    notes = {"tidemill/gang": "g", "tidemill/gang-size": "6"}
    job(told, "a", 3, notes=notes | LEAST)
    told.rest()
    assert told.bound() == {}
    job(told, "b", 3, notes=notes)
    told.rest()
    assert len(told.bound()) == 6
    assert {what for _, what in told.server.asked} == {"binding"}


TIED: dict[str, dict[str, Any]] = {
    "annotation": {"notes": {"tidemill/required-topology": "rack"}},
    "affinity": {"spec": {"affinity": NEAR_ITSELF}, "labels": {"app": "e1"}},
}


@pytest.mark.parametrize("how", TIED)
def test_a_gang_that_could_be_smaller_and_must_sit_together_is_whole_and_says_so(how: str):
    """Nothing ends by it: it starts with all of its pods, others start too, and it is told."""
    told, rest_of = story(2), dict(TIED[how])
    for name in ("n0", "n1"):
        told.server.nodes[name]["metadata"]["labels"][RACK] = f"r-{name}"
        told.server.news.append(("Node", ("", name), told.server.nodes[name], False))
    notes = rest_of.pop("notes", {}) | {"tidemill/gang-least": "1"}
    job(told, "e1", 2, 6, notes=notes, **rest_of)
    told.server.make("plain", 1)
    told.rest()
    assert told.bound() == {"plain": "n0"}, "12 GPUs are in no rack"
    unit = next(key for key in told.scheduler.view.units() if key.kind == "Job")
    words = " ".join(told.scheduler.differ.unread[unit])
    assert "such a gang keeps its full size" in words
    told.server.put_node("n2", 12)
    told.server.nodes["n2"]["metadata"]["labels"][RACK] = "r-n2"
    told.rest()
    assert told.bound() == {"plain": "n0", "e1-0": "n2", "e1-1": "n2"}


def test_a_training_job_that_must_sit_together_is_whole():
    """A PyTorchJob that works with one of two workers, tied to a rack: both, or nothing."""
    told = story(1)
    told.server.nodes["n0"]["metadata"]["labels"][RACK] = "r0"
    told.server.news.append(("Node", ("", "n0"), told.server.nodes["n0"], False))
    notes = {"tidemill/required-topology": "rack"}
    above = ("kubeflow.org/v1", "PyTorchJob", "t")
    worker = {"replicas": 2, "template": made.template(3, schedulerName="tidemill")}
    spec = {"elasticPolicy": {"minReplicas": 1}, "pytorchReplicaSpecs": {"Worker": worker}}
    told.server.put(made.owner(*above, spec))
    for i in range(2):
        told.server.make(f"t-{i}", 3, owner=above, annotations=notes)
    told.rest()
    assert told.bound() == {"t-0": "n0", "t-1": "n0"}


def test_a_gang_in_a_group_that_was_made_smaller_grows_to_what_it_was():
    """A Deployment of 4 in a group that asks for 4, and works with 2: 3 fit, later 4."""
    told = story(3)
    told.server.put(group(4))
    above = ("apps/v1", "Deployment", "set")

    def scaled(count: int) -> None:
        there = sorted(name for _, name in told.server.pods if name.startswith("set-"))
        for name in there[count:]:
            told.server.drop(("ml", name))
        for i in range(len(there), count):
            told.server.make(f"set-{i}", 8, owner=above, labels=IN_GROUP, annotations=LEAST)

    told.server.put(made.owner(*above, {"replicas": 4}))
    scaled(4)
    rest(told)
    assert ("set", "3") in told.server.asked
    scaled(3)
    rest(told)
    assert len(told.bound()) == 3
    told.server.put_node("n3", 8)
    rest(told)
    assert told.scheduler.loop.world.shape_rows[-1].roles[0].count == 4
