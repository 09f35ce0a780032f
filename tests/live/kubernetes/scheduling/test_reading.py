"""What people read of a scheduler of ours: on pods, in `why` and in `pending`, the same."""

import asyncio
import json
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.live.kubernetes import made
from tests.live.kubernetes.scheduling.pretended import PretendedServer, Scheduler
from tidemill import api
from tidemill.cli.job_names import job_number
from tidemill.cli.main import app
from tidemill.explain import said
from tidemill.journal import cluster_kinds, open_journal
from tidemill.ledger import fixes
from tidemill.ledger.buckets import Bucket
from tidemill.live.kubernetes.scheduling import keeping, saying
from tidemill.live.kubernetes.scheduling.differ import FleetRules
from tidemill.live.kubernetes.scheduling.running import SchedulerTerms, begin_journal
from tidemill.live.kubernetes.scheduling.saying import WaitSayer
from tidemill.model.errors import SpecError
from tidemill.model.policy import Policy
from tidemill.model.rows import Queue, Share
from tidemill.model.topology import Tier, Topology

POLICY = Policy(min_run_ms=0, preempt_gain_ppm=0)
HOUR_MS = 3_600_000


class Read:
    """A scheduler on a pretended cluster, with a journal in a file that began an hour ago."""

    def __init__(self, path: Path, *sizes: int, rules: FleetRules | None = None) -> None:
        self.server, self.where = PretendedServer(random.Random(1)), str(path)
        for i, size in enumerate(sizes):
            self.server.put_node(f"n{i}", size)
        self.journal = open_journal(self.where, create=True)
        self.journal.claim()
        begins_ms = round(1000 * time.time()) - HOUR_MS
        begin_journal(self.journal, SchedulerTerms(self.where), begins_ms, POLICY)
        self.scheduler = Scheduler(self.server, self.journal, POLICY)
        self.scheduler.loop.world.scheduler = "tidemill"
        self.scheduler.differ.rules = rules or FleetRules()

    def rest(self) -> None:
        """Until there is nothing to do; all pods are told, and what is beside events is kept."""
        scheduler = self.scheduler
        self.server.deliver(scheduler.view, len(self.server.news))

        async def work() -> None:
            sayer = WaitSayer(self.server, scheduler.differ, said, "tidemill")  # type: ignore[arg-type]
            await scheduler.rest()
            for unit in list(scheduler.view.units()):
                await sayer.say(unit)
            await sayer.stop()
            held = keeping.held(scheduler.differ, made.BEGIN_MS)
            for kept in keeping.facts(scheduler.differ, held, {}, sayer.ordered).items():
                self.journal.set_meta(*kept)

        asyncio.run(work())

    def told(self, pod: str) -> tuple[str, str]:
        """Reason and message of the condition of a pod."""
        (condition,) = self.server.told[pod]["conditions"]
        return condition["reason"], condition["message"]

    def asked(self, *words: str) -> str:
        """What a command says of the journal, on one line."""
        output = CliRunner().invoke(app, [*words, "-j", self.where]).output
        return " ".join(output.split())

    def refused(self, *words: str) -> str:
        """Why a command has no answer."""
        return str(CliRunner().invoke(app, [*words, "-j", self.where]).exception)

    def hinted(self, *words: str) -> str:
        """What a command that has no answer says to do."""
        error = CliRunner().invoke(app, [*words, "-j", self.where]).exception
        return error.hint if isinstance(error, SpecError) else ""

    def answered(self, *words: str) -> dict[str, Any]:
        """The same in JSON."""
        told = CliRunner().invoke(app, [*words, "-j", self.where, "--json"])
        found: dict[str, Any] = json.loads(told.stdout)
        return found


@pytest.fixture
def story(tmp_path: Path) -> Iterator[Read]:
    """Two nodes of 8 GPUs."""
    made_up = Read(tmp_path / "live.sqlite", 8, 8)
    yield made_up
    made_up.journal.close()


@pytest.fixture(autouse=True)
def _quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saying, "PER_SECOND", 1_000_000)


def test_pods_and_why_and_pending_say_the_same(story: Read):
    """Full nodes, a node too small, a selector that no node has, a held gang: one text each."""
    story.server.make("other", 4, on="n0")
    story.server.make("full", 8, gang="wide", size=3)
    for i in range(2):
        story.server.make(f"wide{i}", 8, gang="wide", size=3)
    story.server.make("large", 16)
    story.server.make("elsewhere", 1, spec={"nodeSelector": {"zone": "mars"}})
    story.server.make("half", 1, gang="pair", size=2)
    story.rest()
    for pod, job in (("full", "ml/wide"), ("large", "ml/large"), ("elsewhere", "ml/elsewhere"),
                     ("half", "ml/pair")):  # fmt: skip
        reason, words = story.told(pod)
        assert f"{words} (owner:" in story.asked("why", job), pod
        if job == "ml/pair":
            assert reason in story.asked("pending")
    assert story.told("wide0") == story.told("full")
    listed = story.asked("pending")
    for job in ("ml/wide", "ml/large", "ml/elsewhere", "ml/pair"):
        assert job in listed


def test_who_asks_about_a_pod_of_a_gang_is_told_how_gangs_are_named(story: Read):
    """By an annotation, where nothing else is known of the pod; by its owner, where it says so."""
    for i in range(2):
        story.server.make(("half", "other")[i], 1, gang="pretrain", size=2)
    story.rest()
    world, _ = api.open_world(story.where)
    with pytest.raises(SpecError, match="no job is called `ml/half`") as found:
        job_number(world, "ml/half", story.where, None)
    assert "NAMESPACE/ and the name of its pod group, of the annotation tidemill/gang" in (
        found.value.hint
    )
    with pytest.raises(SpecError) as found:
        job_number(world, "ml/pretrain-1-8gbdf", story.where, None)
    assert "did you mean `ml/pretrain`?" in found.value.hint


def test_jobs_are_found_without_their_namespace_and_those_of_one_name_are_listed(story: Read):
    """`single` in one namespace, `twice` in two, a held gang by the name of its annotation."""
    story.server.make("single", 16)
    for namespace in ("ml", "web"):
        story.server.make("twice", 16, namespace=namespace)
    story.server.make("half", 1, gang="pair", size=2)
    story.rest()
    world = story.scheduler.loop.world
    assert job_number(world, "single", story.where, None) == world.job_number["ml/single"]
    for command in ("why", "decision"):
        assert story.asked(command, "single").count("`single` is `ml/single`") == 1
    assert "1 of the 2 pods" in story.asked("why", "pair")
    for name in ("twice", "twice-0", "twice-7f9c-x2x4z"):
        with pytest.raises(SpecError) as found:
            job_number(world, name, story.where, None)
        assert "did you mean `ml/twice`, `web/twice`?" in found.value.hint


RAY = "ray.io/v1"


def ray_job(story: Read, pods: int) -> None:
    """A RayJob, its cluster, and pods of that with a resource that is not placed here."""
    above = [{"apiVersion": RAY, "kind": "RayJob", "name": "tune", "uid": "u", "controller": True}]
    story.server.put(made.owner(RAY, "RayJob", "tune", {}))
    story.server.put(made.owner(RAY, "RayCluster", "tune-x1", {}, owners=above))
    labels, owner = {"ray.io/cluster": "tune-x1"}, (RAY, "RayCluster", "tune-x1")
    for i in range(pods):
        story.server.make(f"w{i}", 1, resource="nvidia.com/vgpu", owner=owner, labels=labels)
    story.rest()


@pytest.mark.parametrize("name", ["ml/tune", "tune", "ml/tune-x1"])
def test_a_job_that_is_held_is_found_by_what_owns_its_pods(name: str, story: Read):
    """By the RayJob, or its cluster, `why` and `decision` lead to its pods: each is held for
    itself, since what it requests is unknown; the others are named.
    """
    ray_job(story, 3)
    reason, words = story.told("w0")
    assert reason == "NotSupported"
    for command in ("why", "decision"):
        told = story.asked(command, name)
        above = name if "/" in name else f"ml/{name}"
        assert (
            f"`ml/w0` belongs to `{above}`, and is held; the same may be asked of `ml/w1`" in told
        )
        assert "job `ml/w0` of team `ml` requests an unknown number of accelerators" in told
        assert words in told


def test_the_decision_about_a_job_that_is_held_says_so(story: Read):
    """No node was looked at for it: that, and why, in words and in JSON."""
    story.server.make("half", 1, gang="pair", size=2)
    story.rest()
    reason, words = story.told("half")
    told = story.asked("decision", "ml/pair")
    assert "not placed, decided by Tidemill" in told
    assert f"{reason}: it is held, whatever is free: {words}" in told
    found = story.answered("decision", "ml/pair")
    assert (found["outcome"], found["filters"], found["bind"]) == ("waits", [], None)
    assert "no job is called `ml/nobody`" in story.refused("decision", "ml/nobody")


def test_what_owns_pods_that_are_held_in_two_namespaces_is_asked_for_in_full(story: Read):
    """`train` may be either: both are named."""
    for namespace in ("ml", "web"):
        story.server.make(f"half-{namespace}", 1, gang=f"pair-{namespace}", size=2,
                          namespace=namespace, owner=("batch/v1", "Job", "train"))  # fmt: skip
    story.rest()
    assert "did you mean `ml/train`, `web/train`?" in story.refused("why", "train")
    assert "job `web/pair-web` of team" in story.asked("why", "web/train")


def test_a_job_at_work_is_not_taken_for_one_that_is_held_and_belongs_to_its_name(story: Read):
    """A gang is called as the Job that owns another pod: what runs under that name is answered."""
    story.server.make("p", 1, gang="train", size=1)
    story.server.make("half", 1, gang="pair", size=2, owner=("batch/v1", "Job", "train"))
    story.rest()
    told = story.asked("why", "ml/train")
    assert "stage by stage: `tidemill decision ml/train" in told
    assert "ml/pair" not in told


def test_a_journal_that_nobody_writes_says_that_it_is_a_schedulers(story: Read):
    """Not an observer's."""
    story.journal.close()
    words = api.completeness_of(story.where).words
    assert words.startswith("no scheduler is writing this journal now; this is what there was")


def test_our_own_journal_does_not_say_that_another_scheduler_decides(story: Read):
    """Not even where pods of others were seen."""
    story.server.make("other", 8, on="n0")
    story.server.make("p", 16)
    story.rest()
    for words in (("pending",), ("why", "ml/p"), ("why", "ml/p", "--eta")):
        found = story.asked(*words)
        assert "scheduler of its own" not in found
        assert "another, which decides" not in found


def test_waits_are_counted_to_now_while_somebody_writes_the_journal(story: Read):
    """The last event was an hour ago; the job has waited for an hour, until the writer ends."""
    story.server.make("p", 16)
    story.rest()
    assert "has waited 59m" in story.asked("why", "ml/p") or "waited 1h" in story.asked(
        "why", "ml/p"
    )
    story.journal.close()
    assert "has waited 0" in story.asked("why", "ml/p")


def test_why_finds_the_present_life_of_a_job_and_names_the_others(story: Read):
    """A gang whose pods were gone and come again is found by its name."""
    for turn in range(2):
        for i in range(2):
            story.server.make(f"worse{i}", 8 * (1 + turn), gang="worse", size=2)
        story.rest()
        for i in range(2 * (1 - turn)):
            story.server.finish(("ml", f"worse{i}"))
        story.rest()
    now = story.asked("why", "ml/worse")
    assert "`ml/worse` is `ml/worse#2` now; before: `ml/worse#1`" in now
    assert "job `ml/worse#2` of team `ml` requests" in now
    assert "what came after it is `ml/worse#2`" in story.asked("why", "ml/worse#1")


def test_only_a_node_like_those_that_are_there_is_ordered(tmp_path: Path):
    """`Unschedulable` where an empty node of a kind that is there could carry it, and only then."""
    rack = Topology((Tier("rack", "topology.kubernetes.io/rack"),))
    quota = FleetRules((Queue("ml", (Share("H100", limit_milli=24_000),)),), rack)
    story = Read(tmp_path / "live.sqlite", 8, 8, rules=quota)
    for i in range(2):
        story.server.make(f"busy{i}", 8)
    story.rest()
    story.server.make("fits-an-empty-one", 4)
    story.server.make("too-large", 16)
    story.server.make("no-such-label", 1, spec={"nodeSelector": {"zone": "mars"}})
    story.server.make("only-there", 1, spec={"nodeSelector": {"kubernetes.io/hostname": "n0"}})
    even = {"maxSkew": 1, "topologyKey": "kubernetes.io/hostname",
            "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}  # fmt: skip
    story.server.make("spread", 1, spec={"topologySpreadConstraints": [even]})
    for i in range(5):
        story.server.make(f"many{i}", 8, gang="many", size=5)
    tied = {"tidemill/gang": "tied", "tidemill/gang-size": "2",
            "tidemill/required-topology": "rack"}  # fmt: skip
    for i in range(2):
        story.server.make(f"tied{i}", 4, annotations=tied)
    story.rest()
    reasons = {name: story.told(name)[0] for name in story.server.told}
    assert reasons["fits-an-empty-one"] == "Unschedulable"
    assert reasons["too-large"] == reasons["no-such-label"] == "NoSuchNode"
    assert reasons["only-there"] == "Waiting", "no new node has this name"
    assert reasons["spread"] == "Unschedulable", "a new node has none of them yet"
    assert reasons["many0"] == "OverQuota", "its quota keeps it out, whatever is bought"
    assert reasons["tied0"] != "Unschedulable"
    story.journal.close()


def test_what_is_not_to_be_bought_is_not_ordered(tmp_path: Path):
    """6 are free on two nodes: a pod of 6 is told to wait, and `why` says not to buy. So is one for
    a node that is cordoned.
    """
    story = Read(tmp_path / "live.sqlite", 8, 8)
    story.server.put_node("n2", 4, unschedulable=True)
    for i in range(2):
        story.server.make(f"busy{i}", 5)
    story.rest()
    story.server.make("scattered", 6)
    story.server.make("there", 4, spec={"nodeSelector": {"kubernetes.io/hostname": "n2"}})
    story.rest()
    assert story.told("scattered") == ("Waiting", "enough is free, but scattered over nodes")
    assert "do not buy" in story.asked("why", "ml/scattered")
    assert story.told("there")[0] == "Waiting"
    assert "takes work" in story.told("there")[1]
    assert "do not buy" in story.asked("why", "ml/there")
    story.journal.close()


def test_a_pod_that_changed_meanwhile_is_told_nothing(story: Read):
    """It was bound after the scheduler last heard of it: its condition is not written over."""
    story.server.make("p", 16)
    story.rest()
    assert story.told("p")[0] == "NoSuchNode"
    story.server.told.clear()
    story.server.make("q", 16)
    story.server.deliver(story.scheduler.view, len(story.server.news))
    story.server._bind(("ml", "q"), "n0")  # by hand; the watch has not told it
    held_back, story.server.news = story.server.news, []
    story.rest()
    assert "q" not in story.server.told
    story.server.news = held_back


def test_a_tainted_node_is_called_so(story: Read):
    """`why` names the taint, and does not advise to uncordon."""
    pressure = {"key": "node.kubernetes.io/disk-pressure", "effect": "NoSchedule"}
    for name in ("n0", "n1"):
        one = made.node(name, 8, taints=[pressure])
        one["metadata"]["namespace"] = ""
        story.server.nodes[name] = one
        story.server.put(one)
    story.server.make("p", 8)
    story.rest()
    found = story.asked("why", "ml/p", "--nodes")
    assert "tainted node.kubernetes.io/disk-pressure:NoSchedule" in found
    assert "16 tainted on 2 nodes" in found
    assert "uncordon" not in found


ON_N0 = {"nodeSelector": {"kubernetes.io/hostname": "n0"}}


def test_a_node_with_more_in_use_than_it_has_is_busy_and_not_broken(story: Read):
    """8 GPUs in use of which 6 are allocatable now, or 8 and 4 of another scheduler's.

    Who wants the node waits for others to leave: that is the cause, and the fix.
    """
    story.server.make("full", 8, spec=ON_N0)
    story.rest()
    story.server.put_node("n0", 8, sick=2)
    story.server.make("need6", 6, spec=ON_N0)
    story.rest()
    answer = story.asked("why", "ml/need6")
    assert "`n0` is over-committed: 8 in use of 6 allocatable: takes work again when pods" in answer
    assert "(owner: scheduling)" in answer
    assert "fix: wait" in answer
    assert "do not wait" not in answer
    assert "0 Ready" not in answer
    assert f"{story.told('need6')[1]} (owner: scheduling)" in answer
    listed = story.asked("fleet", "--nodes")
    assert "over-committed: 8 in use of 6 allocatable" in listed
    assert "cordoned" not in listed
    story.server.finish(("ml", "full"))
    story.rest()
    assert story.server.pods["ml", "need6"]["spec"]["nodeName"] == "n0"
    assert "over-committed" not in story.asked("fleet", "--nodes")


def test_a_node_that_another_scheduler_overbooked_is_busy(story: Read):
    """Ours holds 8 of 8 when another scheduler binds 4 more there."""
    story.server.make("ours", 8, spec=ON_N0, owner=None)
    story.rest()
    story.server.make("theirs", 4, on="n0")
    story.server.make("need", 8, spec=ON_N0)
    story.rest()
    answer = story.asked("why", "ml/need")
    assert "`n0` is over-committed: 12 in use of 8 allocatable: takes work again when" in answer
    assert "not enough is free (owner: scheduling)" in answer
    assert "8 accelerators Ready and schedulable" in answer
    assert "do not wait" not in answer
    assert "over-committed: 12 in use of 8" in story.asked("fleet", "--nodes")


@pytest.mark.parametrize("is_ours", [True, False])
def test_nothing_is_free_on_a_node_that_another_scheduler_overbooked(story: Read, *, is_ours: bool):
    """6 and 6 of 8 GPUs: the books find room for the first alone, but all 8 are in use.

    Nobody cordoned the node, and to uncordon it helps nobody.
    """
    if is_ours:
        story.server.make("first", 6, spec=ON_N0, owner=None)
        story.rest()
    else:
        story.server.make("first", 6, on="n0")
    story.server.make("theirs", 6, on="n0")
    story.server.make("need2", 2, spec=ON_N0)
    story.server.make("need8", 8, spec=ON_N0)
    story.rest()
    for name in ("need2", "need8"):
        answer = story.asked("why", f"ml/{name}")
        assert "`n0` is over-committed: 12 in use of 8 allocatable: takes work again" in answer
        assert "not enough is free (owner: scheduling)" in answer
        assert "cordon" not in answer
        assert f"{story.told(name)[1]} (owner: scheduling)" in answer
    listed = story.asked("fleet", "--nodes")
    assert "over-committed: 12 in use of 8 allocatable" in listed
    assert "cordoned" not in listed + story.asked("fleet")
    assert '"free_milli":0' in story.asked("fleet", "--nodes", "--json").replace(" ", "")


def test_of_a_node_with_more_in_use_than_it_has_more_may_have_failed_than_is_booked(story: Read):
    """6 GPUs in use, 4 of 8 advertised: two fail in the books, the others when the 6 leave."""
    story.server.make("six", 6, spec=ON_N0)
    story.rest()
    story.server.put_node("n0", 8, sick=4)
    story.server.make("need8", 8, spec=ON_N0)
    story.rest()
    answer = story.asked("why", "ml/need8")
    assert "replace at least 2 failed devices of `n0`" in answer
    story.server.finish(("ml", "six"))
    story.rest()
    assert "replace 4 failed devices of `n0`" in story.asked("why", "ml/need8")


def test_decision_and_why_say_the_same_of_what_is_free_for_others(tmp_path: Path):
    """8 GPUs are held, and 8 more are given out by claims: `why`, `decision`, what was tried for it
    and the pod say that not enough is free, and none that it is scattered.
    """
    story = Read(tmp_path / "live.sqlite", 8)
    story.server.put_node("d0", 8)
    story.server.make("holds", 6)
    story.rest()
    story.server.make("waits", 4)
    story.rest()
    told = story.answered("decision", "ml/waits")
    answer = story.answered("why", "ml/waits")["answer"]
    assert told["cause"] == answer["cause"] == "busy"
    assert {one["what"] for one in told["tried"]} == {"submitted", "waited_busy"}
    assert "scattered" not in told["words"]
    assert story.told("waits")[1] in told["words"]
    removed = {one["filter"]: one["words"] for one in told["filters"][0]["removed"]}
    assert removed["labels"] == "without an advertised `nvidia.com/gpu`"
    assert [*removed] == ["labels", "free_gpus"]
    said = story.asked("why", "ml/waits", "--nodes")
    assert "does not advertise `nvidia.com/gpu`" in said
    assert "tidemill/resource" not in said
    assert "tidemill/devices" not in said
    assert "kubectl describe nodes" in said, "the line that shows it on the cluster"
    assert "sinfo" not in said
    story.server.make("held", 4, annotations={"tidemill/required-topology": "spine"})
    story.rest()
    said = story.asked("why", "ml/held")
    assert "kubectl get events -n ml --field-selector reason=FailedScheduling" in said
    story.journal.close()


def test_a_node_that_its_cluster_tainted_is_called_so_everywhere(tmp_path: Path):
    """`decision`, `why --nodes` and the ledger's advice: nobody cordoned it."""
    story = Read(tmp_path / "live.sqlite")
    taint = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
    one = made.node("n0", 8, taints=[taint])
    story.server.nodes["n0"] = one
    story.server.news.append(("Node", ("", "n0"), one, False))
    story.server.make("waits", 4)
    story.rest()
    told = story.answered("decision", "ml/waits")
    (removed,) = told["filters"][0]["removed"]
    assert (removed["filter"], removed["words"]) == ("state", "1 tainted")
    assert "tainted" in story.asked("why", "ml/waits")
    assert "cordoned" not in story.asked("why", "ml/waits", "--nodes")
    (advice,) = fixes.fixes(api.read_statement(story.where), Bucket.CORDONED)
    assert advice.words.startswith("mend what Kubernetes has tainted nodes for")
    story.journal.close()


def test_a_namespace_without_jobs_may_be_asked_about_here_too(story: Read):
    """`fit` for another namespace than any so far: its job has no quota, and begins as `fit` said;
    what the hint offers where the namespace is left out is taken.
    """
    world = story.scheduler.loop.world
    story.server.make("a", 1)
    story.server.make("b", 1, namespace="vision")
    story.rest()
    assert set(world.queue_number) == {"ml", "vision"}
    for key, value in cluster_kinds.facts({"": cluster_kinds.KUBERNETES}).items():
        story.journal.set_meta(key, value)
    assert "another namespace may be asked about, too" in story.hinted("fit", "--gpus", "8")
    found = story.asked("fit", "--team", "new", "--gpus", "4")
    assert "runs now" in found
    assert (
        "no job of team `new` is known here: it is taken to be new, and to have no quota" in found
    )
    story.server.make("c", 4, namespace="new")
    story.rest()
    assert story.server.pods["new", "c"]["spec"]["nodeName"]


def test_only_types_of_nodes_that_are_there_are_named(tmp_path: Path):
    """Nodes of other types came and went, and a policy named a type by mistake for a while; beside
    whole GPUs there are MIG instances. Nothing says that what is gone is in the cluster.
    """
    story = Read(tmp_path / "live.sqlite", 8, 8)
    for name, product in (("l4", "NVIDIA-L4"), ("b200", "NVIDIA-B200")):
        one = made.node(name, 8, labels={"nvidia.com/gpu.product": product})
        story.server.nodes[name] = one
        story.server.news.append(("Node", ("", name), one, False))
    story.server.put_node("m0", 8)
    story.rest()
    for name in ("l4", "b200"):
        story.server.drop_node(name)
    story.rest()
    for kind in ("H10", "H100"):
        shares = (Share(kind, limit_milli=800_000),)
        story.scheduler.differ.rules = FleetRules((Queue("ml", shares),))
        story.scheduler.backend.look()
        story.rest()
    story.server.make("large", 16)
    for i in range(9):
        story.server.make(f"wide{i}", 8, gang="wide", size=9)
    story.server.make("b", 1, spec={"nodeSelector": {"nvidia.com/gpu.product": "NVIDIA-B200"}})
    story.rest()
    for name in ("large", "wide"):
        told = story.asked("why", f"ml/{name}")
        assert "24 `H100` in the cluster" in told
        assert not {"`L4`", "`B200`", "`H10`"} & {*told.split()}
    assert "requests 1 `H100` with `nvidia.com/gpu.product=NVIDIA-B200`" in story.asked(
        "why", "ml/b"
    )
    story.server.put_node("b201", 16)
    story.server.nodes["b201"]["metadata"]["labels"]["nvidia.com/gpu.product"] = "NVIDIA-B200"
    story.rest()
    assert story.server.pods["ml", "large"]["spec"]["nodeName"] == "b201"
    story.journal.close()
