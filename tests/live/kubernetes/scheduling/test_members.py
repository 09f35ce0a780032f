"""Gangs whose pods are not alike: some have no GPUs, or other ones, or another scheduler."""

import asyncio
from typing import Any

from tests.live.kubernetes import made
from tests.live.kubernetes.scheduling.pretended import CLAIMED
from tests.live.kubernetes.scheduling.test_holding import Story
from tidemill.live.kubernetes.scheduling import differ

GANG: dict[str, Any] = {"gang": "g", "size": 3}


def test_pods_without_gpus_are_counted_among_the_pods_of_their_gang():
    """Two workers of a gang of three start with the driver that has no GPU; not before it."""
    story = Story(8)
    story.server.make("w0", 2, **GANG)
    story.server.make("w1", 2, **GANG)
    story.rest()
    assert story.bound() == {}
    assert story.held()["ml/g"][1].startswith("2 of the 3 pods of its gang are there")
    story.server.make("driver", 0, **GANG)
    story.rest()
    assert story.bound() == {"w0": "n0", "w1": "n0", "driver": "n0"}
    assert story.held() == {}


def test_the_driver_of_a_pod_group_is_counted_whatever_comes_first():
    """By the least of its object; a worker beyond that starts after them."""
    story = Story(8)
    group = made.owner("scheduling.x-k8s.io/v1alpha1", "PodGroup", "g", {"minMember": 3})
    story.server.put(group)
    mine: dict[str, Any] = {"labels": {"scheduling.x-k8s.io/pod-group": "g"}}
    story.server.make("driver", 0, **mine)
    story.server.make("w0", 2, **mine)
    story.rest()
    assert story.bound() == {"driver": "n0"}
    assert story.held()["ml/g"][1].startswith("2 of the 3 pods of its gang are there")
    story.server.make("w1", 2, **mine)
    story.rest()
    story.server.make("w2", 2, **mine)
    story.rest()
    assert story.bound() == dict.fromkeys(["driver", "w0", "w1", "w2"], "n0")


def test_a_gang_of_pods_that_differ_starts_with_all_of_them():
    """Of three pods with 1, 2 and 4 GPUs none is bound before the third is there."""
    story = Story(8)
    story.server.make("a", 1, **GANG)
    story.server.make("b", 2, **GANG)
    story.rest()
    assert story.bound() == {}
    assert story.held()["ml/g"][0] == "WaitingForGang"
    story.server.make("c", 4, **GANG)
    story.rest()
    assert story.bound() == dict.fromkeys("abc", "n0")


def test_a_pod_whose_claim_is_not_there_yet_is_no_pod_without_gpus():
    """It may have devices: the other one of its gang waits for it."""
    story = Story()
    story.server.put_node("d0", 4)
    story.server.make("a", 1, gang="g", size=2, resource=CLAIMED)
    told = {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "later"}]}
    story.server.make("b", 0, gang="g", size=2, spec=told)
    story.rest()
    assert "a" not in story.bound()


def test_pods_of_a_gang_that_name_another_scheduler_are_told():
    """Ours wait for pods that name us; whoever wrote the other name reads of it."""
    story = Story(8)
    story.server.make("ours", 1, gang="g", size=2)
    story.server.make("theirs", 1, gang="g", size=2, spec={"schedulerName": "default-scheduler"})
    story.rest()
    reason, words = story.held()["ml/g"]
    assert reason == "WaitingForGang"
    assert words.startswith("1 of the 2 pods of its gang are there")
    assert words.endswith("; 1 more by another scheduler (`default-scheduler`)")


def test_a_gang_says_how_many_of_its_pods_have_gates():
    """Pods without gates of their own are told that others have some."""
    story = Story(8)
    story.server.make("free", 1, gang="g", size=2)
    gates = {"schedulingGates": [{"name": "example.com/quota"}]}
    story.server.make("gated", 1, gang="g", size=2, spec={"schedulerName": "tidemill", **gates})
    story.rest()
    assert story.held()["ml/g"] == (
        "SchedulingGated",
        "1 of the 2 pods of its gang are held by scheduling gates: example.com/quota",
    )


def test_a_pod_more_than_an_elastic_gang_has_places_is_told_so():
    """As in a rolling update: a pod is made before another one leaves, and no GPU is free."""
    story = Story(2)
    story.scheduler.differ.elastic.let_resize()
    story.server.put(made.owner("apps/v1", "ReplicaSet", "set", {"replicas": 2}))
    told = {"tidemill/gang-least": "1"}
    owner = ("apps/v1", "ReplicaSet", "set")
    mine: dict[str, Any] = {"gang": "g", "size": 2, "owner": owner, "annotations": told}
    story.server.make("w0", 1, **mine)
    story.server.make("w1", 1, **mine)
    story.rest()
    assert len(story.bound()) == 2
    story.server.make("w2", 1, **mine)
    story.server.deliver(story.scheduler.view, len(story.server.news))
    asyncio.run(story.scheduler.rest())
    assert story.held() == {"ml/g": differ.ALL_SEATED}
    assert story.bound().keys() == {"w0", "w1"}
    story.server.drop(("ml", "w0"))
    story.rest()
    assert story.bound().keys() == {"w1", "w2"}
    assert story.held() == {}
