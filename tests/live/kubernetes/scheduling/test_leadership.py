"""Who stands by says who holds the Lease."""

import asyncio
from typing import Any

import msgspec

from tidemill.live.kubernetes.api.writing import Written
from tidemill.live.kubernetes.scheduling import leadership
from tidemill.live.kubernetes.scheduling.leadership import Leadership

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
