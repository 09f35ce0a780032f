"""Moves that `why` and `defrag` name of pods that we placed: the rules that we kept are kept."""

from typing import Any

import pytest

from tests.live.kubernetes.scheduling.test_holding import Story
from tests.live.kubernetes.test_named_moves import near
from tidemill import explain
from tidemill.explain import Glance, defrag
from tidemill.model.policy import Policy


@pytest.mark.parametrize("rules", [{}, near("podAntiAffinity", "svc")], ids=["none", "apart"])
def test_replicas_that_keep_apart_are_not_moved_together(rules: dict[str, Any]):
    """Two of 4 on two nodes of 8 and a job for 5: without the rule one goes to the other."""
    story = Story(8, 8)
    for name in ("svc-0", "other", "svc-1"):
        told: dict[str, Any] = {"labels": {"app": "svc"}, "spec": {**rules}}
        told = told if name != "other" else {}
        story.server.make(name, 4, **told)
        story.rest()
    story.server.finish(("ml", "other"))
    assert {story.bound()[name] for name in ("svc-0", "svc-1")} == {"n0", "n1"}
    story.server.make("want", 5)
    story.rest()
    world = story.scheduler.differ.world
    j = world.job_number["ml/want"]
    found = defrag(world, Policy(), j, Glance(world, sweeps=True))
    words = explain.why(world, Policy(), j).words
    assert bool(found.moves) == ("move " in words) == (not rules)
