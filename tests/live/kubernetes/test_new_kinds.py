"""Kinds of objects that a cluster comes to have while it is watched."""

import asyncio
import json
from pathlib import Path

import pytest

from tests.live.kubernetes.test_expired import Forgetful, access
from tests.rigs.prometheus.lying import Asked, Told, lying
from tidemill.live.kubernetes import groups
from tidemill.live.kubernetes.api.client import ApiClient
from tidemill.live.kubernetes.watching import mirror
from tidemill.live.kubernetes.watching.mirror import ClusterCopy

GROUP = {"name": groups.PLUGINS, "versions": [{"version": "v1", "groupVersion": "x/v1"}],
         "preferredVersion": {"version": "v1"}}  # fmt: skip
PODGROUPS = [{"name": "podgroups", "kind": "PodGroup", "verbs": ["list", "watch"]}]


class Growing(Forgetful):
    """An API server that has pod groups once they are installed."""

    is_installed = False
    asked = 0

    def answer(self, number: int, asked: Asked) -> Told:
        """Of one question."""
        path = asked.path.partition("?")[0]
        self.asked += path == "/apis"
        if self.is_installed and path == "/apis":
            return Told(200, json.dumps({"groups": [GROUP]}).encode())
        if path == f"/apis/{groups.PLUGINS}/v1":
            return Told(200, json.dumps({"resources": PODGROUPS}).encode())
        return super().answer(number, asked)


def test_a_kind_that_somebody_asks_for_is_found_soon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Looked for at every LOOK_SOON_S after it was asked for, and not before."""
    monkeypatch.setattr(mirror, "LOOK_SOON_S", 0.05)
    server = Growing(is_in_stream=False)

    async def story(address: str) -> tuple[int, bool, bool]:
        client = ApiClient(access(address, tmp_path))
        copy = ClusterCopy(client, lambda: 0)
        await copy.start()
        await asyncio.sleep(0.5)
        unasked = server.asked
        before = copy.is_read(groups.PLUGINS, "PodGroup")
        await asyncio.sleep(0.2)
        server.is_installed = True
        for _ in range(200):
            if copy.is_read(groups.PLUGINS, "PodGroup"):
                break
            await asyncio.sleep(0.05)
        found = unasked, before, copy.is_read(groups.PLUGINS, "PodGroup")
        await copy.stop()
        await client.close()
        return found

    with lying(server.answer) as (address, _):
        assert asyncio.run(story(address)) == (1, False, True)
