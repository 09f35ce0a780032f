"""A server that refuses every watch as expired (410): read all the same, said, and not hammered."""

import asyncio
import json
import time
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.rigs.kubernetes.wanted import node, pod
from tests.rigs.prometheus.lying import Asked, Told, lying
from tidemill.live.kubernetes.api import kubeconfig
from tidemill.live.kubernetes.api.client import ApiClient
from tidemill.live.kubernetes.api.kubeconfig import ClusterAccess
from tidemill.live.kubernetes.watching import kind_copy, mirror
from tidemill.live.kubernetes.watching.kinds import ServedKind
from tidemill.live.kubernetes.watching.mirror import MOST_EXPIRED, ClusterCopy
from tidemill.live.kubernetes.watching.source import KubernetesSource

RESOURCES = [
    {"name": name, "kind": kind, "verbs": ["list", "watch"]}
    for name, kind in (("pods", "Pod"), ("nodes", "Node"))
]
GONE = {"kind": "Status", "code": 410, "message": "too old resource version"}


class Forgetful:
    """An API server whose lists are right and whose watches end at once."""

    def __init__(self, *, is_in_stream: bool) -> None:
        self.is_in_stream = is_in_stream
        self.objects: dict[str, list[dict[str, Any]]] = {
            "pods": [made(pod("a", 2), 1)], "nodes": [made(node("n0"), 2)],
        }  # fmt: skip
        self.lists = 0

    def answer(self, _: int, asked: Asked) -> Told:
        """Of one question."""
        url = urlsplit(asked.path)
        name = url.path.rpartition("/")[2]
        if "watch" in parse_qs(url.query):
            event = json.dumps({"type": "ERROR", "object": GONE}).encode() + b"\n"
            return Told(200, event) if self.is_in_stream else Told(410, json.dumps(GONE).encode())
        if name in self.objects:
            self.lists += name == "pods"
            found = {"items": self.objects[name], "metadata": {"resourceVersion": "7"}}
            return Told(200, json.dumps(found).encode())
        told: dict[str, Any] = {"/apis": {"groups": []}, "/api/v1": {"resources": RESOURCES}}
        return Told(200, json.dumps(told.get(url.path, {})).encode())


def made(one: dict[str, Any], number: int) -> dict[str, Any]:
    """An object as a server shows it."""
    told = {"uid": f"u{number}", "creationTimestamp": "2026-11-17T00:00:00Z"}
    one["metadata"] |= told | {"namespace": "ml"} if one["kind"] == "Pod" else told
    return one


def access(address: str, folder: Path) -> ClusterAccess:
    """The way to a server without users, by a kubeconfig in a folder."""
    config = {
        "clusters": [{"name": "c", "cluster": {"server": address}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "users": [{"name": "u", "user": {}}], "current-context": "c",
    }  # fmt: skip
    path = folder / "kubeconfig"
    path.write_text(json.dumps(config))
    return kubeconfig.find(path)


@pytest.mark.parametrize("is_in_stream", [False, True])
def test_a_kind_that_cannot_be_watched_is_listed_when_asked(tmp_path: Path, *, is_in_stream: bool):
    """Every question is answered from a new list; after three refusals no list is made unasked."""
    server = Forgetful(is_in_stream=is_in_stream)
    with (
        lying(server.answer) as (address, _),
        KubernetesSource(access(address, tmp_path), timeout_s=20) as source,
    ):
        first = source.poll(0)
        server.objects["pods"].append(made(pod("b", 1), 3))
        second = source.poll(0)
        third = source.poll(0)
    assert [sorted(answer.attempts["job"]) for answer in (first, second, third)] == [
        ["ml/a"], ["ml/a", "ml/b"], ["ml/a", "ml/b"],
    ]  # fmt: skip
    assert server.lists <= MOST_EXPIRED + 2, "until it is clear, then one for each question"
    assert any(
        "refuses to go on watching pods (410" in note and "listed at every question" in note
        for note in third.notes
    )


def test_a_reader_that_breaks_is_told_and_does_not_pass_for_a_quiet_cluster(tmp_path: Path):
    """Whoever is told of changes and cannot take one ends the copy, not only the watch of it."""

    def breaks(*_: object) -> None:
        raise ZeroDivisionError

    async def copy(client: ApiClient) -> None:
        copied = ClusterCopy(client, lambda: 0, on_change=breaks)
        await copied.start()
        try:
            with pytest.raises(ZeroDivisionError):
                await copied.settle(20)
            with pytest.raises(ZeroDivisionError):
                copied.heed()
        finally:
            await copied.stop()
            await client.close()

    with lying(Forgetful(is_in_stream=False).answer) as (address, _):
        asyncio.run(copy(ApiClient(access(address, tmp_path))))


def test_who_asks_for_nothing_is_told_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A scheduler is told of changes and asks no questions: it is listed for it now and then."""
    monkeypatch.setattr(mirror, "LONGEST_PAUSE_S", 0.05)
    server, told = Forgetful(is_in_stream=False), set[str]()

    def take(_: ServedKind, key: tuple[str, str], *__: object) -> None:
        told.add(key[1])

    async def copy(client: ApiClient) -> None:
        copied = ClusterCopy(client, lambda: 0, on_change=take)
        await copied.start()
        await copied.settle(20)
        server.objects["pods"].append(made(pod("b", 1), 3))
        async with asyncio.timeout(20):
            while "b" not in told:
                await asyncio.sleep(0.01)
        await copied.stop()
        await client.close()

    with lying(server.answer) as (address, _):
        asyncio.run(copy(ApiClient(access(address, tmp_path))))
    assert told == {"a", "b", "n0"}


def test_connections_lost_now_and_then_do_not_make_the_pauses_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """A watch of a kind that is quiet, and stood until it was cut, is asked for again at once."""
    monkeypatch.setattr(mirror, "FIRST_PAUSE_S", 0.01)
    monkeypatch.setattr(kind_copy, "STOOD_S", 0.02)
    server = Forgetful(is_in_stream=False)
    watches = 0

    def answer(number: int, asked: Asked) -> Told:
        nonlocal watches
        if "watch" not in parse_qs(urlsplit(asked.path).query):
            return server.answer(number, asked)
        watches += "/pods" in asked.path
        return Told(200, b"\n" * 4, length=100, trickle_s=0.01)  # and the connection ends

    async def copy(client: ApiClient) -> None:
        copied = ClusterCopy(client, lambda: 0, on_change=lambda *_: None)
        await copied.start()
        async with asyncio.timeout(20):  # by pauses that grow, 80 s
            while watches < 25:
                await asyncio.sleep(0.01)
        await copied.stop()
        await client.close()

    with lying(answer) as (address, _):
        asyncio.run(copy(ApiClient(access(address, tmp_path))))


def test_what_was_forgotten_while_the_server_was_away_is_listed_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Tries in vain come ever more seldom; the first answer, that a version is gone, ends that."""
    monkeypatch.setattr(mirror, "FIRST_PAUSE_S", 0.02)
    server = Forgetful(is_in_stream=False)
    watches, refused_s, listed_s = 0, 0.0, 0.0

    def answer(number: int, asked: Asked) -> Told:
        nonlocal watches, refused_s, listed_s
        if not urlsplit(asked.path).path.endswith("/pods"):
            return server.answer(number, asked)
        if "watch" not in parse_qs(urlsplit(asked.path).query):
            listed_s = time.monotonic()
            return server.answer(number, asked)
        watches += 1
        if watches <= 7:
            return Told(500, b"{}")
        refused_s = refused_s or time.monotonic()
        return server.answer(number, asked)

    async def copy(client: ApiClient) -> None:
        copied = ClusterCopy(client, lambda: 0, on_change=lambda *_: None)
        await copied.start()
        async with asyncio.timeout(60):
            while not listed_s > refused_s > 0:
                await asyncio.sleep(0.01)
        await copied.stop()
        await client.close()

    with lying(answer) as (address, _):
        asyncio.run(copy(ApiClient(access(address, tmp_path))))
    assert listed_s - refused_s < 1.0, "2.56 s is the pause that had come to be"


def test_a_watch_that_was_cut_goes_on_from_its_last_bookmark_without_a_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """A kind in which nothing changed is known up to the bookmark: nothing is read again."""
    monkeypatch.setattr(mirror, "FIRST_PAUSE_S", 0.01)
    server, since = Forgetful(is_in_stream=False), list[str]()
    bookmark = {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "4711"}}}

    def answer(number: int, asked: Asked) -> Told:
        query = parse_qs(urlsplit(asked.path).query)
        if "watch" not in query:
            return server.answer(number, asked)
        if "/pods" in asked.path:
            assert query["allowWatchBookmarks"] == ["true"]
            since.append(query["resourceVersion"][0])
        return Told(200, json.dumps(bookmark).encode() + b"\n")  # and the connection ends

    async def copy(client: ApiClient) -> None:
        copied = ClusterCopy(client, lambda: 0, on_change=lambda *_: None)
        await copied.start()
        async with asyncio.timeout(20):
            while len(since) < 4:
                await asyncio.sleep(0.01)
        await copied.stop()
        await client.close()

    with lying(answer) as (address, _):
        asyncio.run(copy(ApiClient(access(address, tmp_path))))
    assert since[:4] == ["7", "4711", "4711", "4711"]
    assert server.lists == 1
