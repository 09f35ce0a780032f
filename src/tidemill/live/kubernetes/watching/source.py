"""A Kubernetes cluster as an observer asks it: a copy that is kept beside it, translated each time.

The copy lives in a thread of its own, so that it goes on between two questions: a pod that is made
and deleted in between is seen. Times are the cluster's; this machine's clock does not count.
"""

import asyncio
import threading
import time
from collections.abc import Coroutine
from typing import Any, Self, TypeVar

import msgspec

from tidemill.journal.cluster_kinds import KUBERNETES
from tidemill.live.history.advance import SourceAnswer
from tidemill.live.kubernetes import autoscaler, fields
from tidemill.live.kubernetes.api.client import (
    PAGE,
    TIMEOUT_S,
    UNREACHABLE,
    ApiClient,
    ApiRefusal,
    refused,
    unreachable,
)
from tidemill.live.kubernetes.api.kubeconfig import ClusterAccess
from tidemill.live.kubernetes.translate import translate
from tidemill.live.kubernetes.watching import kinds
from tidemill.live.kubernetes.watching.kind_copy import WatchState
from tidemill.live.kubernetes.watching.mirror import ClusterCopy, ShownObjects
from tidemill.model.errors import BackendError

SKEW_SAID_MS = 5_000
MOST_TRIES = 5
"""Of a server that takes watches and ends them at once, as one does that was just started."""

Answer = TypeVar("Answer")


class KubernetesSource:
    """One cluster, read by list and watch; a context manager."""

    name = KUBERNETES

    def __init__(
        self,
        access: ClusterAccess,
        *,
        team_by: str = "namespace",
        timeout_s: float = TIMEOUT_S,
        limit: int = PAGE,
        autoscaler_namespace: str = "",
    ) -> None:
        self._autoscaler_namespace = autoscaler.checked(autoscaler_namespace)
        self._access, self._team_by = access, team_by
        self._timeout_s, self._limit = timeout_s, limit
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._client: ApiClient | None = None
        self._cluster = ""
        self.copy: ClusterCopy | None = None
        """What is known of the cluster; None: it was not asked yet."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End all connections."""
        if self._loop is None or self._thread is None:
            return
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result(self._timeout_s)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self._loop = self._thread = self._client = self.copy = None

    def now_ms(self) -> int:
        """The API server's clock."""
        return self._in_thread(self._clock())

    def poll(self, since_ms: int) -> SourceAnswer:
        """What the cluster shows now, and what was deleted since then."""
        shown, now_ms, ahead_ms = self._in_thread(self._shown(since_ms))
        past = translate(shown, self._team_by, looks_back=False)
        notes = [*shown.notes, *past.notes, *(one.words() for one in past.refused[:3])]
        if abs(ahead_ms) > SKEW_SAID_MS:
            where = "ahead of" if ahead_ms > 0 else "behind"
            notes.append(
                f"the API server's clock is {abs(ahead_ms) / 1000:,.0f} s {where} this machine's;"
                " it counts"
            )
        return SourceAnswer(
            past.attempts, past.nodes, now_ms, not past.refusals, tuple(notes), past.shapes,
            past.queues, past.pods, cluster=self._cluster, deciders=past.deciders,
            kinds={"": KUBERNETES}, quota_use=past.quota_use,
            claim_sharers=past.claim_sharers, admission=past.admission,
        )  # fmt: skip

    def _in_thread(self, asked: Coroutine[Any, Any, Answer]) -> Answer:
        """Run something beside the watches, and wait for it."""
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(
                target=self._loop.run_forever, name="kubernetes-watches", daemon=True
            )
            self._thread.start()
        found = asyncio.run_coroutine_threadsafe(asked, self._loop)
        try:
            return found.result()
        except UNREACHABLE as error:
            raise unreachable(self._access, error) from error
        except ApiRefusal as error:
            raise refused(self._access, error, "observe.yaml") from error
        except msgspec.DecodeError as error:
            raise unreachable(self._access, error) from error

    async def _asked(self) -> ApiClient:
        if self._client is None:
            self._client = ApiClient(self._access, timeout_s=self._timeout_s)
        return self._client

    async def _clock(self) -> int:
        client = await self._asked()
        await client.get("/version")
        if client.clock.last_ms is None:
            raise BackendError(
                f"asked {self._access.named} for its clock; its answers have no date",
                hint="does something between here and the API server take headers away?",
            )
        return client.clock.last_ms

    async def _shown(self, since_ms: int) -> tuple[ShownObjects, int, int]:
        client = await self._asked()
        await self._clock()
        if self.copy is None:
            copy = ClusterCopy(client, client.clock.now_ms, limit=self._limit,
                               autoscaler_namespace=self._autoscaler_namespace)  # fmt: skip
            self._cluster = await identity(client)
            await copy.start()
            self.copy = copy
        end_s = time.monotonic() + self._timeout_s  # of all tries: who is to stop waits for this
        for _ in range(MOST_TRIES):
            await self.copy.settle(end_s - time.monotonic())
            self._refuse_blind(self.copy)
            now_ms = await self._clock()
            if self.copy.is_settled:  # no watch was refused meanwhile: up to now all is known
                break
        self._refuse_blind(self.copy)
        return self.copy.shown(since_ms), now_ms, client.clock.ahead_ms

    def _refuse_blind(self, copy: ClusterCopy) -> None:
        """Without pods there is nothing to tell."""
        pods = copy.copies.get(kinds.PODS)
        if pods is not None and pods.state in (WatchState.WATCHING, WatchState.POLLED):
            return
        if pods is not None and pods.state is WatchState.FORBIDDEN:
            raise BackendError(
                f"asked for the pods of the cluster ({self._access.named}); found {pods.said}",
                hint=f"{kinds.PODS.remedy}; for another account, add to its ClusterRole:"
                f" {kinds.PODS.rule}",
            )
        found = pods.said if pods is not None else "that it has none"
        raise BackendError(
            f"asked for the pods of the cluster ({self._access.named}); found"
            f" {found or 'no answer in time'}",
            hint="nothing was told; it is asked again",
        )

    async def _stop(self) -> None:
        if self.copy is not None:
            await self.copy.stop()
        if self._client is not None:
            await self._client.close()


async def identity(client: ApiClient) -> str:
    """The uid of a namespace that every cluster has since it began; "": it may not be read."""
    try:
        told = await client.get("/api/v1/namespaces/kube-system")
    except ApiRefusal:
        return ""
    return fields.text(msgspec.json.decode(told), "metadata", "uid")
