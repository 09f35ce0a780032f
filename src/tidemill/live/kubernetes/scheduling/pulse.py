"""Whether the API server still answers, while the watches of pods and nodes are quiet.

A server that stands still (its machine hangs, a network drops all) keeps its connections: a watch
of it looks like one of a cluster in which nothing happens. So it is asked for its version after
each lull: any answer counts, also no. A watch that says something is asked no such thing.
"""

import asyncio
import time

from tidemill.live.kubernetes.api.client import UNREACHABLE, ApiClient, ApiRefusal
from tidemill.live.kubernetes.watching import kinds
from tidemill.live.kubernetes.watching.mirror import ClusterCopy

LULL_S = 10.0
"""After so long without a word it is asked: 6 small questions per minute of a quiet cluster."""
ANSWER_S, TRIES = 4.0, 2
"""So long an answer may take (a version is in memory: milliseconds), and so often in a row none may
come until the server is called silent: one is lost where our own loop was busy for so long."""
LOOKS_PER_LULL = 4
"""How often in the time of a lull the watches are looked at, and a silent server is asked again."""


class ServerPulse:
    """The last that was heard of an API server."""

    def __init__(self, client: ApiClient, copy: ClusterCopy) -> None:
        """``client``: one of its own, so that no list of all pods is waited for."""
        self._client, self._copy = client, copy
        self._heard = time.monotonic(), self._versions()
        """When it said something last, and up to where pods and nodes were known then."""
        self._is_silent = False
        self._task: asyncio.Task[None] | None = None

    @property
    def silent_s(self) -> float:
        """For how long it has said nothing, though it was asked; 0: it answers."""
        return time.monotonic() - self._heard[0] if self._is_silent else 0.0

    def begin(self) -> None:
        """Listen from now on."""
        self._hear()
        self._task = asyncio.get_running_loop().create_task(self._work())

    async def stop(self) -> None:
        """Ask nothing more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._client.close()

    async def _work(self) -> None:
        while True:
            await asyncio.sleep(LULL_S / LOOKS_PER_LULL)
            if self._versions() != self._heard[1]:
                self._hear()
            elif time.monotonic() - self._heard[0] >= LULL_S:
                await self._ask()

    async def _ask(self) -> None:
        for _ in range(TRIES):
            if await self._answers() or self._versions() != self._heard[1]:
                self._hear()
                return
        self._is_silent = True

    async def _answers(self) -> bool:
        try:
            async with asyncio.timeout(ANSWER_S):
                await self._client.get("/version")
        except ApiRefusal:
            return True
        except UNREACHABLE:
            return False
        return True

    def _hear(self) -> None:
        self._heard, self._is_silent = (time.monotonic(), self._versions()), False

    def _versions(self) -> list[tuple[str, int]]:
        copies = (self._copy.copies.get(kind) for kind in (kinds.PODS, kinds.NODES))
        return [(one.version, one.changes) for one in copies if one is not None]
