"""Policies that change, and pods whose namespace is a team that a policy puts above others."""

import pytest

from tests.live.kubernetes.scheduling.test_holding import Story
from tidemill.live.kubernetes.scheduling.differ import FleetRules
from tidemill.live.kubernetes.scheduling.running import refuse_unless_folds
from tidemill.model.errors import EventRefused
from tidemill.model.rows import Queue, Share
from tidemill.model.topology import Tier, Topology

BELOW = (Queue("org", (Share("H100", limit_milli=8_000),)), Queue("ml", parent="org"))


def story(*queues: Queue) -> Story:
    """A cluster with one node, and a policy with these teams."""
    made = Story(8)
    made.scheduler.differ.rules = FleetRules(queues)
    return made


def test_a_pod_of_a_team_above_others_waits_and_says_whose_it_may_be():
    """Jobs belong to the lowest teams: it is held, others are placed, and it is when it may be."""
    told = story(*BELOW)
    told.server.make("up", 1, namespace="org")
    told.server.make("down", 1)
    told.rest()
    assert told.bound() == {"down": "n0"}
    reason, words = told.held()["org/up"]
    assert reason == "TeamAboveOthers"
    assert "its team `org` has teams below it (`ml`)" in words
    told.scheduler.differ.rules = FleetRules((Queue("org"), Queue("ml")))
    told.scheduler.backend.look()
    told.rest()
    assert told.bound() == {"down": "n0", "up": "n0"}
    assert told.held() == {}


@pytest.mark.parametrize("spec", [{}, {"schedulerName": "tidemill"}], ids=["of others", "of ours"])
def test_what_runs_of_a_team_above_others_counts_there(spec: dict[str, str]):
    """Pods that are bound hold what they hold: of a quota of 8 for all of it, 3 are left."""
    told = story(*BELOW)
    told.server.make("up", 5, namespace="org", on="n0", spec=spec)
    told.server.make("large", 4)
    told.server.make("small", 3)
    told.rest()
    assert told.bound() == {"up": "n0", "small": "n0"}
    world = told.scheduler.differ.world
    assert world.queue_rows[world.queue_number["org (itself)"]].parent == "org"
    told.scheduler.differ.rules = FleetRules((Queue("org"), Queue("ml")))
    told.scheduler.backend.look()
    told.rest()
    assert world.tree.is_leaf[world.queue_number["org"]]


def test_a_tier_that_a_job_names_is_kept_until_that_has_ended():
    """Rules that lack it come with a restart: nothing ends by that, and the next look is by them.

    While it runs such rules are refused, and the job is named.
    """
    told = story()
    rack, zone = Tier("rack", "topology.kubernetes.io/rack"), Tier("zone", "zone")
    told.scheduler.differ.rules = FleetRules((), Topology((rack,)))
    told.server.make("tied", 1, annotations={"tidemill/required-topology": "rack"})
    told.rest()
    assert told.bound() == {"tied": "n0"}
    told.scheduler.differ.rules = rules = FleetRules((), Topology((zone,)))
    told.scheduler.backend.look()
    told.server.make("soon", 1, annotations={"tidemill/required-topology": "zone"})
    told.rest()
    world = told.scheduler.loop.world
    assert world.topology.tiers == (rack,)
    assert told.held()["ml/soon"][0] == "UnknownTopology"
    with pytest.raises(EventRefused, match="no tier `rack`, which the job `ml/tied` names"):
        refuse_unless_folds(rules, world)
    told.server.drop(("ml", "tied"))
    told.rest()
    refuse_unless_folds(rules, world)
    told.scheduler.backend.look()
    told.rest()
    assert world.topology.tiers == (zone,)
    assert told.bound() == {"soon": "n0"}


def test_rules_without_any_tier_are_refused_alike_while_a_job_names_one():
    """They too leave the tiers as they were, for jobs that come as well, until such have ended."""
    told = story()
    rack = Tier("rack", "topology.kubernetes.io/rack")
    told.scheduler.differ.rules = FleetRules((), Topology((rack,)))
    notes = {"tidemill/required-topology": "rack"}
    told.server.make("tied", 1, annotations=notes)
    told.rest()
    told.scheduler.differ.rules = bare = FleetRules()
    told.scheduler.backend.look()
    told.server.make("soon", 1, annotations=notes)
    told.rest()
    world = told.scheduler.loop.world
    assert world.topology.tiers == (rack,)
    assert told.bound() == {"tied": "n0", "soon": "n0"}
    with pytest.raises(EventRefused, match="no tier `rack`, which the job `ml/tied` names"):
        refuse_unless_folds(bare, world)
    for name in ("tied", "soon"):
        told.server.drop(("ml", name))
    told.rest()
    refuse_unless_folds(bare, world)
    told.scheduler.backend.look()
    told.server.make("late", 1, annotations=notes)
    told.rest()
    assert told.scheduler.loop.world.topology.tiers == ()
    words = "has to be in one `rack`; tiers that the policy declares: none"
    assert told.held()["ml/late"] == ("UnknownTopology", words)


def test_a_pod_that_waits_for_a_tier_is_placed_when_the_policy_declares_it():
    """Nothing else has to change in the cluster for that."""
    told = story()
    told.server.make("tied", 1, annotations={"tidemill/required-topology": "rack"})
    told.rest()
    assert told.held()["ml/tied"][0] == "UnknownTopology"
    tiers = (Tier("rack", "topology.kubernetes.io/rack"),)
    told.scheduler.differ.rules = FleetRules((), Topology(tiers))
    told.scheduler.backend.look()
    told.rest()
    assert told.bound() == {"tied": "n0"}
