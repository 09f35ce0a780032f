"""Kinds that may be listed and not watched, that may not be read any more, that are there no more:
each is said, with the rule that lacks, and nothing is taken for what it was.
"""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from threading import Event
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.live.kubernetes import made as objects
from tests.live.kubernetes.test_expired import RESOURCES, access, made
from tests.live.kubernetes.watched import WatchedCluster
from tests.rigs.kubernetes.wanted import node, pod
from tests.rigs.prometheus.lying import Asked, Told, lying
from tidemill.live.kubernetes.api.client import ApiClient
from tidemill.live.kubernetes.scheduling import pulse as pulses
from tidemill.live.kubernetes.scheduling.pulse import ServerPulse
from tidemill.live.kubernetes.scheduling.sight import ClusterSight
from tidemill.live.kubernetes.watching import kinds, mirror
from tidemill.live.kubernetes.watching.kind_copy import WatchState
from tidemill.live.kubernetes.watching.mirror import ClusterCopy
from tidemill.live.kubernetes.watching.source import KubernetesSource
from tidemill.model.errors import BackendError

SETS = "jobset.x-k8s.io"
RULE = 'to allow it, add to the ClusterRole: apiGroups: [""], resources: ["nodes"]'
BOOKMARK = {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "8"}}}


class Server:
    """An API server whose lists and watches are refused as somebody says; watches end soon."""

    def __init__(self) -> None:
        self.no: dict[tuple[str, bool], int] = {}
        """By kind, and whether its watch is meant: with which status."""
        self.lists = dict.fromkeys(("pods", "nodes", "jobsets"), 0)
        self.holds_s = 0.02
        """So long a watch lasts."""
        self.stands = Event()
        """It takes questions and answers none: it was stopped, and is not ended."""
        self.version = "v1alpha2"
        """Of JobSets; "": there are none."""
        self.objects: dict[str, list[dict[str, Any]]] = {
            "pods": [made(pod("a", 2), 1)], "nodes": [made(node("n0"), 2)],
            "jobsets": [{"metadata": {"namespace": "ml", "name": "s", "uid": "u5"}, "spec": {}}],
        }  # fmt: skip

    def answer(self, _: int, asked: Asked) -> Told:
        """Of one question."""
        if self.stands.is_set():
            return Told(after_s=60)
        url = urlsplit(asked.path)
        name, is_watch = url.path.rpartition("/")[2], "watch" in parse_qs(url.query)
        is_gone = name == "jobsets" and f"/{self.version}/" not in url.path
        if status := 404 if is_gone else self.no.get((name, is_watch)):
            return Told(status, json.dumps({"code": status, "message": f"no {name}"}).encode())
        if is_watch:
            return Told(200, json.dumps(BOOKMARK).encode() + b"\n", after_s=self.holds_s)
        if name in self.objects:
            self.lists[name] += 1
            found = {"items": self.objects[name], "metadata": {"resourceVersion": "7"}}
            return Told(200, json.dumps(found).encode())
        groups = [{"name": SETS, "versions": [{"version": self.version}]}] if self.version else []
        sets = [{"name": "jobsets", "kind": "JobSet", "verbs": ["list", "watch"]}]
        told: dict[str, Any] = {
            "/apis": {"groups": groups}, "/api/v1": {"resources": RESOURCES},
            f"/apis/{SETS}/{self.version}": {"resources": sets},
        }  # fmt: skip
        return Told(200, json.dumps(told.get(url.path, {})).encode())


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    monkeypatch.setattr(mirror, "LOST_S", 0.3)
    monkeypatch.setattr(mirror, "FIRST_FORBIDDEN_S", 0.05)
    monkeypatch.setattr(mirror, "FIRST_PAUSE_S", 0.01)
    monkeypatch.setattr(mirror, "LOOK_SOON_S", 0.05)
    return Server()


@pytest.fixture
def source(server: Server, tmp_path: Path) -> Iterator[KubernetesSource]:
    """Asks that server."""
    with (
        lying(server.answer) as (address, _),
        KubernetesSource(access(address, tmp_path), timeout_s=20) as made,
    ):
        yield made


def names(source: KubernetesSource) -> tuple[list[str], list[str]]:
    """The nodes and jobs of one answer."""
    found = source.poll(0)
    return sorted(one.name for one in found.nodes), sorted(found.attempts["job"].to_list())


@pytest.mark.parametrize("kind", ["nodes", "pods"])
def test_what_may_be_listed_and_not_watched_is_listed_at_every_question(
    server: Server, source: KubernetesSource, kind: str
):
    """What came since is in each answer, at once, with the rule; given the right it is watched."""
    server.no[kind, True] = 403
    began_s = time.monotonic()
    assert names(source) == (["n0"], ["ml/a"])
    server.objects[kind].append(made(node("n1") if kind == "nodes" else pod("b", 2), 3))
    found = names(source)
    assert found == ((["n0", "n1"], ["ml/a"]) if kind == "nodes" else (["n0"], ["ml/a", "ml/b"]))
    assert time.monotonic() - began_s < 10, "half of the time that an answer may take"
    lists = server.lists[kind]
    (said,) = (one for one in source.poll(0).notes if one.startswith("may not watch"))
    assert said.startswith(f"may not watch {kind}: they are listed at every question instead")
    assert said.endswith(f'resources: ["{kind}"], verbs: ["list", "watch"]')
    assert server.lists[kind] == lists + 1
    server.no.clear()
    assert source.poll(0).notes == ()


def test_a_refusal_of_a_moment_takes_nothing_away(server: Server, source: KubernetesSource):
    """A server that was just started refuses all: nothing is listed anew, and nothing is lost."""
    names(source)
    before = dict(server.lists)
    server.no = {(kind, is_watch): 403 for kind in server.lists for is_watch in (True, False)}
    assert source.copy is not None
    copies = source.copy.copies.values()
    _until(lambda: all(one.refused_since is not None for one in copies))
    server.no.clear()
    assert names(source) == (["n0"], ["ml/a"])
    assert source.poll(0).notes == ()
    assert server.lists == before
    assert not any(one.hidden for one in copies)


def _until(is_so: Callable[[], bool]) -> None:
    end_s = time.monotonic() + 20
    while not is_so():
        assert time.monotonic() < end_s
        Event().wait(0.005)


def test_nodes_that_may_not_be_read_any_more_are_not_observed(
    server: Server, source: KubernetesSource
):
    """They stay, marked as not seen since then, until the right is given again; it is said."""
    names(source)
    server.no = {("nodes", False): 403, ("nodes", True): 403}
    assert source.copy is not None
    copy = source.copy.copies[kinds.NODES]
    _until(lambda: copy.refused_since is not None)
    found = source.poll(0)
    ((lost_ms, until_ms),) = found.nodes[0].unseen
    assert 0 < lost_ms < found.now_ms + 1000 < until_ms, "it says its time in whole seconds"
    (said,) = (one for one in found.notes if "nodes" in one)
    assert said.startswith("may not read nodes any more: they are taken as they were last seen")
    assert RULE in said
    server.no.clear()
    server.objects["nodes"].append(made(node("n1"), 3))
    found = source.poll(0)
    assert found.notes == ()
    assert [one.name for one in found.nodes] == ["n0", "n1"]
    ((again_ms, back_ms),) = found.nodes[0].unseen
    assert again_ms == lost_ms <= back_ms < found.now_ms + 1000
    assert source.poll(back_ms + 1).nodes[0].unseen == ()


def test_without_pods_nothing_is_told_any_more(server: Server, source: KubernetesSource):
    """An error with the rule; given again, what was there is there, and nothing has ended."""
    names(source)
    server.no = {("pods", False): 403, ("pods", True): 403}
    assert source.copy is not None
    copy = source.copy.copies[kinds.PODS]
    _until(lambda: copy.refused_since is not None)
    for _ in range(2):
        with pytest.raises(BackendError, match="found 403 no pods") as refused:
            source.poll(0)
        assert 'resources: ["pods"], verbs: ["list", "watch"]' in refused.value.hint
    server.no.clear()
    found = source.poll(0)
    assert found.attempts["end_ms"].to_list() == [None]


def test_a_kind_that_is_gone_takes_no_time_and_comes_back(server: Server, source: KubernetesSource):
    """Its CRD is deleted, and made again: its objects are over, and then there are new ones."""
    names(source)
    server.version = ""
    assert source.copy is not None
    copy = source.copy
    _until(lambda: "JobSet" not in _read_kinds(copy))
    began_s = time.monotonic()
    assert source.poll(0).notes == ()
    assert time.monotonic() - began_s < 10
    lists = server.lists["jobsets"]
    server.version = "v1alpha2"
    _until(lambda: server.lists["jobsets"] > lists)
    assert source.poll(0).notes == ()
    assert "JobSet" in _read_kinds(copy)


def _read_kinds(copy: ClusterCopy) -> set[str]:
    return {kind.kind for kind, one in copy.copies.items() if one.state is WatchState.WATCHING}


def test_a_kind_that_is_served_under_another_version_loses_nothing(
    server: Server, source: KubernetesSource
):
    """The version that was watched is not served any more: the other one is, and has the same."""
    names(source)
    server.version = "v1beta1"
    assert source.copy is not None
    copies = source.copy.copies
    _until(lambda: server.lists["jobsets"] == 2)
    assert source.poll(0).notes == ()
    (found,) = (one for one in source.copy.copies.values() if one.kind.kind == "JobSet")
    assert (found.kind.version, [*found.rows], found.gone) == ("v1beta1", [("ml", "s")], [])
    assert len(source.copy.copies) == len(copies)


# The books ----------------------------------------------------------------------------------------


def lose(cluster: WatchedCluster, kind: str) -> None:
    """A kind may not be read any more."""
    (copy,) = (one for one in cluster.copies.values() if one.kind.kind == kind)
    copy.lists, copy.state = 1, WatchState.FORBIDDEN
    copy.hide()


def regain(cluster: WatchedCluster, kind: str) -> None:
    """A kind is listed again as it was."""
    (copy,) = (one for one in cluster.copies.values() if one.kind.kind == kind)
    copy.state = WatchState.WATCHING
    copy.end_list({*copy.rows})


def test_what_was_free_while_nodes_could_not_be_read_is_not_observed():
    """From when the right was lost until it was given again, and said once, not with each look."""
    cluster = WatchedCluster(objects.node("n0", at=0), objects.pod("a", 2, on="n0"))
    cluster.look(100)
    cluster.now = 200
    lose(cluster, "Node")
    cluster.look(300, 400, 500)
    cluster.now = 600
    regain(cluster, "Node")
    cluster.look(700, 800)
    found = cluster.seconds()
    assert found["NOT_OBSERVED"] == 6 * 400
    kinds_of = [type(one).__name__ for one in cluster.observer.journal.read()]
    assert (kinds_of.count("SightLost"), kinds_of.count("SightRegained")) == (1, 1)


def test_a_gang_stays_one_when_its_owner_may_not_be_read_any_more():
    """Which pods belong together does not change; a quota may, and is unknown."""
    gang = objects.pytorch_job("g", 2, 4)
    some = objects.workers("g", 2, 4, ["n0", "n0"])
    cluster = WatchedCluster(objects.node("n0", at=0), gang, *some, lateness=5)
    cluster.look(20, 100)
    lose(cluster, "PyTorchJob")
    cluster.look(200, 300)
    assert cluster.observer.world.job_names == ["ml/g"]
    assert sum(cluster.seconds("ml/g").values()) == 2 * 4 * 295
    assert not cluster.observer.late["ends"]


# The scheduler ------------------------------------------------------------------------------------


def looked(server: Server, folder: Path, story: Callable[..., Awaitable[None]]) -> list[Any]:
    """What a scheduler would log while it sees a server."""
    logged = list[Any]()

    async def run(address: str) -> None:
        client = ApiClient(access(address, folder))
        copy = ClusterCopy(client, lambda: 0, on_change=lambda *_: None)
        pulse = ServerPulse(ApiClient(access(address, folder)), copy)
        sight = ClusterSight(copy, pulse, lambda event, **told: logged.append((event, told)))
        await copy.start()
        pulse.begin()
        await copy.settle(20)
        try:
            async with asyncio.timeout(30):
                await story(sight)
        finally:
            await pulse.stop()
            await copy.stop()
            await client.close()

    with lying(server.answer) as (address, _):
        asyncio.run(run(address))
    return logged


async def until(sight: ClusterSight, is_so: Callable[[], bool]) -> None:
    """Look until something is so."""
    while not is_so():
        sight.note()
        await asyncio.sleep(0.01)
    sight.note()


@pytest.mark.parametrize(("kind", "group"), [("nodes", ""), ("jobsets", SETS)])
def test_a_scheduler_stands_still_while_a_right_that_it_had_lacks(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, group: str
):
    """It says which rule lacks, once, and to who probes it; given again it goes on by itself."""
    monkeypatch.setattr(mirror, "LONGEST_PAUSE_S", 0.05)

    async def story(sight: ClusterSight) -> None:
        sight.note()
        assert not sight.why_not_ready
        server.no = {(kind, False): 403, (kind, True): 403}
        await until(sight, lambda: bool(sight.missing_rules))
        rule = f'apiGroups: ["{group}"], resources: ["{kind}"], verbs: ["list", "watch"]'
        assert sight.why_not_ready.endswith(f"missing rule: {rule}")
        for _ in range(50):  # also while it is tried again
            sight.note()
            assert not sight.is_watching
            await asyncio.sleep(0.005)
        server.no.clear()
        await until(sight, lambda: sight.is_watching)
        assert sight.why_not_ready == ""

    logged = looked(server, tmp_path, story)
    told = [one for event, one in logged if "missing_rules" in one]
    assert len(told) == 1
    assert "nothing is planned meanwhile" in told[0]["hint"]
    assert "deploy/kubernetes/observe.yaml" in told[0]["hint"]
    assert logged[-1][0] == "watching again"


def test_a_scheduler_goes_on_where_what_it_has_beside_pods_and_nodes_is_listed(
    server: Server, tmp_path: Path
):
    """A kind that may be listed and not watched is told, with its rule, and no reason to stop."""
    server.no["jobsets", True] = 403

    async def story(sight: ClusterSight) -> None:
        sight.note()
        sight.note()
        assert sight.is_watching

    ((event, told),) = looked(server, tmp_path, story)
    assert event == "may not read or watch"
    assert told["missing_rules"] == [
        f'apiGroups: ["{SETS}"], resources: ["jobsets"], verbs: ["list", "watch"]'
    ]


@pytest.mark.parametrize("way", ["stands", "goes on"])
def test_a_server_that_stands_still_is_not_watched(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
):
    """It keeps its connections and says nothing, as a quiet one does; asked, it does not answer.

    It is told once, and to who probes it; when it answers again all goes on by itself. A quiet one
    that answers is watched all the time.
    """
    monkeypatch.setattr(pulses, "LULL_S", 0.1)
    monkeypatch.setattr(pulses, "ANSWER_S", 0.1)

    async def story(sight: ClusterSight) -> None:
        sight.note()
        assert sight.is_watching
        server.holds_s = 60
        if way == "goes on":
            for _ in range(50):
                sight.note()
                assert sight.is_watching
                await asyncio.sleep(0.01)
            return
        server.stands.set()
        await until(sight, lambda: not sight.is_watching)
        assert "the API server has said nothing for" in sight.why_not_ready
        server.stands.clear()
        await until(sight, lambda: sight.is_watching)
        assert sight.why_not_ready == ""

    logged = looked(server, tmp_path, story)
    if way == "goes on":
        assert logged == []
        return
    assert [event for event, _ in logged] == ["not watching", "watching again"]
    assert "the API server has said nothing for" in logged[0][1]["said"]
