"""Who stands by says who holds the Lease; a right that lacks for a moment loses it to nobody."""

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from tidemill.live.kubernetes.api.writing import Written
from tidemill.live.kubernetes.scheduling import leadership
from tidemill.live.kubernetes.scheduling.leadership import Leadership
from tidemill.model.errors import BackendError

NOW = "2026-01-01T00:00:00.000000Z"


class Leases:
    """An API server with one Lease; who reads it finds one holder after the other."""

    def __init__(self, *holders: str) -> None:
        self._holders = [*holders]

    async def send(self, method: str, path: str, body: bytes) -> Written:
        """What is read, or that a change was made."""
        assert path.endswith("/leases/scheduler")
        holder = self._holders.pop(0) if method == "GET" else ""
        lease: Any = {"spec": {"holderIdentity": holder, "renewTime": NOW}}
        return Written(200, msgspec.json.encode(lease) if method == "GET" else body)


def test_who_stands_by_says_who_leads_when_that_changes(monkeypatch):
    """Twice the first, then another, which gives it up."""
    monkeypatch.setattr(leadership, "LOOK_S", 0.0)
    said = list[str]()
    server: Any = Leases("first", "first", "second", "")
    asyncio.run(Leadership(server, "tidemill", "scheduler", "own").take(said.append))
    assert said == ["first", "second"]


def test_who_leads_at_once_does_not_stand_by():
    """Nobody holds it."""
    said = list[str]()
    server: Any = Leases("")
    asyncio.run(Leadership(server, "tidemill", "scheduler", "own").take(said.append))
    assert said == []


LEASE = {"spec": {"holderIdentity": "own", "renewTime": NOW}}


class Refusing:
    """An API server that has the Lease of this replica, and refuses what it is told to."""

    def __init__(self, **refused: int) -> None:
        self.refused, self.asked = refused, 0
        """By method: with which status."""

    async def send(self, method: str, path: str, body: bytes) -> Written:
        """The Lease, or a refusal."""
        del path, body
        self.asked += 1
        if status := self.refused.get(method):
            return Written(status, b'{"message": "clusterrole not found"}')
        return Written(200, msgspec.json.encode(LEASE))


def leads(server: Any, log: Callable[..., None] = lambda *_, **__: None) -> Leadership:
    return Leadership(server, "tidemill", "scheduler", "own", log)


@pytest.mark.parametrize("method", ["GET", "PUT"])
@pytest.mark.parametrize("status", [401, 403])
def test_a_renewal_that_is_refused_for_a_moment_loses_nothing(
    monkeypatch: pytest.MonkeyPatch, method: str, status: int
):
    """A server that was just started does not know yet who may what: the Lease lasts all the same.

    It is said once, with the right that seems to lack; refused again later, it is said again.
    """
    monkeypatch.setattr(leadership, "RENEW_S", 0.0)
    said = list[dict[str, Any]]()

    async def story() -> tuple[bool, bool]:
        server = Refusing()
        found = leads(server, lambda event, **told: said.append({"event": event, **told}))
        await found.take()
        keeping = asyncio.create_task(found.keep())
        for refused in ({method: status}, {}, {method: status}):
            server.refused, asked = refused, server.asked
            while server.asked < asked + 5:
                await asyncio.sleep(0)
        keeps = not keeping.done()
        keeping.cancel()
        return keeps, found.is_sure()

    assert asyncio.run(story()) == (True, True)
    assert [one["event"] for one in said] == ["Lease not renewed"] * 2
    verb = {"GET": "get", "PUT": "update"}[method]
    rule = f'resourceNames: ["scheduler"], verbs: ["{verb}"] (Role in namespace tidemill)'
    for one in said:
        assert "clusterrole not found" in one["said"]
        assert one.get("missing_rule", rule).endswith(rule)
        assert ("missing_rule" in one) == (status == 403)


def test_a_right_that_is_taken_away_lets_the_lease_run_out(monkeypatch: pytest.MonkeyPatch):
    """It ends by its own time, in good order; giving it up and asking for it again end nothing."""
    monkeypatch.setattr(leadership, "RENEW_S", 0.01)
    monkeypatch.setattr(leadership, "LOOK_S", 0.01)
    monkeypatch.setattr(leadership, "SURE_S", 0.1)

    async def story() -> bool:
        server = Refusing()
        found = leads(server)
        await found.take()
        server.refused = {"GET": 403}
        async with asyncio.timeout(20):
            await found.keep()
        is_sure = found.is_sure()
        found._sure_until = float("inf")
        await found.give_up()
        taking = asyncio.create_task(found.take())
        await asyncio.sleep(0.1)
        assert not taking.done()
        assert "403 clusterrole not found" in found.refused
        server.refused = {}
        async with asyncio.timeout(20):
            await taking
        assert found.refused == ""
        return is_sure

    assert not asyncio.run(story())


@pytest.mark.parametrize("method", ["GET", "PUT"])
def test_a_right_that_lacks_from_the_beginning_is_an_error(method: str):
    """Nobody waits for a right that was never there."""
    with pytest.raises(BackendError, match="the Lease tidemill/scheduler; found 403") as refused:
        asyncio.run(leads(Refusing(**{method: 403})).take())
    assert "deploy/kubernetes/schedule.yaml" in refused.value.hint
