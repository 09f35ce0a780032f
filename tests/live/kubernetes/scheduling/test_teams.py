"""Policies that change, and pods whose namespace is a team that a policy puts above others."""

import pytest

from tests.live.kubernetes.scheduling.pretended import Scheduler
from tests.live.kubernetes.scheduling.test_holding import Story
from tidemill.live.kubernetes.scheduling.differ import FleetRules
from tidemill.live.kubernetes.scheduling.refused_rules import (
    RefusedRules,
    refuse_unless_folds,
    waits,
)
from tidemill.live.kubernetes.scheduling.running import SchedulerRules
from tidemill.model.errors import EventRefused, SpecError
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


TREE = (Queue("ml"), Queue("sub", parent="ml"))


def follow(told: Story, *queues: Queue) -> None:
    """Other teams from now on."""
    told.scheduler.differ.rules = FleetRules(queues)
    told.scheduler.backend.look()


def test_a_team_whose_jobs_have_ended_or_wait_may_get_teams_below_it():
    """One has ended, one waits for GPUs: it is held with the reason, until it may."""
    told = story(Queue("ml"))
    told.server.make("first", 2)
    told.rest()
    told.server.make("wait", 16)
    told.rest()
    told.server.drop(("ml", "first"))
    told.rest()
    rules, names = FleetRules(TREE), told.scheduler.differ.names
    refuse_unless_folds(rules, told.scheduler.loop.world, names)
    follow(told, *TREE)
    told.server.make("down", 1, namespace="sub")
    told.rest()
    assert told.bound() == {"down": "n0"}
    assert told.held()["ml/wait"][0] == "TeamAboveOthers"
    told.server.put_node("n1", 16)
    follow(told, Queue("ml"))
    told.rest()
    assert told.bound()["wait"] == "n1"
    assert "ml/wait#2" not in told.scheduler.loop.world.job_number


def test_teams_below_one_whose_job_runs_wait_for_its_end_and_nothing_ends_by_that():
    """Refused while the job runs, by its name; so after a restart; when it has ended they hold."""
    told = story(Queue("ml"))
    told.server.make("run", 2)
    told.rest()
    rules, words = FleetRules(TREE), "below team `ml`, whose job `ml/run` runs"
    with pytest.raises(SpecError, match=words):
        refuse_unless_folds(rules, told.scheduler.loop.world, told.scheduler.differ.names)
    told.scheduler = Scheduler(told.server, told.journal)
    told.scheduler.differ.rules = rules
    told.server.make("soon", 2)
    told.rest()
    assert {*told.bound()} == {"run", "soon"}
    world, ours = told.scheduler.loop.world, told.scheduler.differ.names
    assert [event for event, _ in waits(world, rules, ours)] == ["teams wait"]
    for name in ("run", "soon"):
        told.server.drop(("ml", name))
    told.rest()
    assert [*waits(world, rules, ours)] == []
    refuse_unless_folds(rules, world, ours)
    told.scheduler.backend.look()
    told.server.make("late", 2)
    told.rest()
    assert told.bound() == {}
    assert told.held()["ml/late"][0] == "TeamAboveOthers"


def test_pods_of_other_schedulers_in_a_team_that_gets_others_below_it_count_below_it():
    """They hold what they hold, and the quota above knows of it; when it has none below, too."""
    told = story(Queue("ml"))
    told.server.make("theirs", 5, on="n0")
    told.rest()
    share = (Share("H100", limit_milli=7_000),)
    follow(told, Queue("ml", share), Queue("sub", parent="ml"))
    told.server.make("large", 3, namespace="sub")
    told.server.make("small", 2, namespace="sub")
    told.rest()
    assert told.bound() == {"theirs": "n0", "small": "n0"}
    world = told.scheduler.loop.world
    number = world.queue_number
    assert world.used[number["ml"]].sum() == 7_000
    assert world.used[number["ml (itself)"]].sum() == 5_000
    told.server.put_node("n1", 8)
    follow(told, Queue("ml", share), Queue("sub"))
    told.rest()
    assert world.used[number["ml"]].sum() == 5_000
    assert {*told.bound()} == {"theirs", "small", "large"}


def test_rules_that_a_running_job_kept_from_being_used_are_due_when_it_has_ended():
    """They were refused once; nobody has to write them again."""
    told = story(Queue("ml"))
    told.server.make("run", 2)
    told.rest()
    refused = RefusedRules(told.scheduler.loop.world, told.scheduler.differ.names)
    rules = SchedulerRules(fleet=FleetRules(TREE))
    refused.keep(rules)
    assert refused.due() is None
    told.server.drop(("ml", "run"))
    told.rest()
    assert refused.due() is rules
    assert refused.due() is None


def test_tiers_may_be_added_while_jobs_are_placed():
    """One tier, then two, three, and one again: each plan is checked, and carried out."""
    told = story()
    tiers = Tier("zone", "zone"), Tier("rack", "rack"), Tier("row", "row")
    for i, count in enumerate((1, 2, 3, 1)):
        told.scheduler.differ.rules = FleetRules((), Topology(tiers[:count]))
        told.scheduler.backend.look()
        told.server.make(f"p{i}", 1)
        told.rest()
    assert len(told.bound()) == 4
