"""Questions to an API server: one object, all objects of a kind page by page, and what changes.

Only GET. What the server refuses is told apart by what can be done about it.
"""

import asyncio
import os
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import Any, Generic, NamedTuple, TypedDict, TypeVar
from urllib.parse import urlencode

import msgspec
from msgspec import UNSET, Struct, UnsetType

from tidemill.live.kubernetes.api.clock import ServerClock
from tidemill.live.kubernetes.api.http import AnswerHead, BrokenAnswer, HttpConnection
from tidemill.live.kubernetes.api.kubeconfig import ClusterAccess
from tidemill.model import decoding
from tidemill.model.errors import BackendError

PAGE = 500
"""Objects of one answer, as kubectl asks for them."""
MOST_BYTES = 256 << 20
"""Of one answer: 500 objects of the largest size that etcd keeps are three times as much."""
MOST_EVENT_BYTES = 16 << 20
TIMEOUT_S = 30.0
WATCH_S = 570
"""A watch is asked to end after so long, and goes on where it ended."""
QUIET_S = 150.0
"""A watch that says nothing for so long is dead: the server sends a bookmark every minute."""
PACE_S = 0.02
"""Watches are read no more often: a scheduler looks at most every 40 ms (``scheduling.running``)
while things happen, and the first change after a rest is still read at once."""
AGENT = "tidemill-observe"


Told = TypeVar("Told")


class ApiRefusal(Exception):  # noqa: N818 - a refusal, and the caller's to answer
    """The server answers, and says no."""

    def __init__(self, status: int, said: str, retry_s: float = 0.0) -> None:
        super().__init__(f"{status} {said}")
        self.status, self.said, self.retry_s = status, said, retry_s

    @property
    def is_expired(self) -> bool:
        """What was asked for is too old: it has to be listed again."""
        return self.status == 410

    @property
    def is_forbidden(self) -> bool:
        """Whoever asks may not see it."""
        return self.status in (401, 403)

    @property
    def is_later(self) -> bool:
        """The same may be answered later: too many requests, or the server is not well."""
        return self.status == 429 or self.status >= 500

    @property
    def is_absent(self) -> bool:
        """The server does not have such things."""
        return self.status in (404, 405)


class ListedPage(NamedTuple):
    """Some objects of a kind, and the version of the cluster that they show."""

    items: list[dict[str, Any]]
    version: str


class WatchedChange(NamedTuple):
    """One change: ADDED, MODIFIED, DELETED or BOOKMARK, and the object."""

    kind: str
    body: dict[str, Any]


class ObjectMetadata(TypedDict, total=False):
    """What objects say of themselves, without who changed which field: that is half of a pod."""

    name: Any
    generateName: Any
    namespace: Any
    uid: Any
    resourceVersion: Any
    generation: Any
    creationTimestamp: Any
    deletionTimestamp: Any
    deletionGracePeriodSeconds: Any
    labels: Any
    annotations: Any
    ownerReferences: Any
    finalizers: Any


class PlainObject(TypedDict, total=False):
    """An object of a kind that has nothing else: what nobody reads is not made."""

    apiVersion: Any
    kind: Any
    metadata: ObjectMetadata | None
    spec: Any
    status: Any


class _ListMeta(Struct, rename="camel", frozen=True):
    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class _List(Struct, Generic[Told]):
    metadata: _ListMeta = _ListMeta()
    items: list[Told] | UnsetType | None = UNSET
    """Some servers write null for none; an answer without this word is no list."""
    kind: str = ""
    message: str = ""
    code: int = 0


class _WatchEvent(Struct, Generic[Told]):
    type: str
    object: Told


class _ApiStatus(Struct):
    message: str = ""
    reason: str = ""
    code: int = 0


_AS_DICT = dict[str, Any]
_DECODERS = {
    (kind, shape): msgspec.json.Decoder(kind[shape])
    for kind in (_List, _WatchEvent)
    for shape in (_AS_DICT, PlainObject, _ApiStatus)
}
"""To make one takes longer than to use it."""


class ApiClient:
    """One server, asked by one user. Use it in one event loop."""

    def __init__(self, access: ClusterAccess, *, timeout_s: float = TIMEOUT_S) -> None:
        self._access, self._timeout_s = access, timeout_s
        self._kept: HttpConnection | None = None
        self._turn = asyncio.Lock()
        self.clock = ServerClock()
        self.asked = 0
        """How many questions were sent."""

    async def get(self, path: str, query: Mapping[str, str | int] | None = None) -> bytes:
        """One answer, over a connection that is kept for the next."""
        async with self._turn:
            try:
                return await self._get(path, query)
            except BaseException:
                await self.close()
                raise

    async def pages(
        self,
        path: str,
        query: Mapping[str, str | int] | None = None,
        *,
        limit: int = PAGE,
        shape: type[Any] = _AS_DICT,
    ) -> AsyncGenerator[ListedPage]:
        """All objects under a path, some at a time; ``shape``: what of them is made."""
        asked: dict[str, str | int] = {**(query or {}), "limit": limit}
        while True:
            told = _decoded(await self.get(path, asked), _List, shape)
            if told.items is UNSET:  # an error that calls itself 200: nothing was deleted
                raise ApiRefusal(
                    told.code or 500, told.message or f"`{told.kind}` where a list was asked for"
                )
            yield ListedPage(told.items or [], told.metadata.resource_version)
            if not told.metadata.continue_:
                return
            asked["continue"] = told.metadata.continue_

    @asynccontextmanager
    async def watching(
        self,
        path: str,
        version: str,
        query: Mapping[str, str | int] | None = None,
        *,
        shape: type[Any] = _AS_DICT,
    ) -> AsyncIterator[AsyncIterator[WatchedChange]]:
        """What changes since a version, as it happens; ends when the server ends it."""
        asked: dict[str, str | int] = {
            **(query or {}), "watch": "true", "allowWatchBookmarks": "true",
            "resourceVersion": version, "timeoutSeconds": WATCH_S,
        }  # fmt: skip
        connection = await self._opened()
        try:
            head = await self._head(connection, path, asked)
            async with aclosing(_changes(connection, head, shape)) as changes:
                yield changes
        finally:
            connection.close()

    async def close(self) -> None:
        """End the connection that is kept."""
        if self._kept is not None:
            kept, self._kept = self._kept, None
            kept.close()

    async def _get(self, path: str, query: Mapping[str, str | int] | None) -> bytes:
        is_kept = self._kept is not None
        try:
            return await self._once(path, query)
        except (OSError, BrokenAnswer) as error:
            if not is_kept and not isinstance(error, _OtherCertificate):
                raise
        await self.close()  # the server had ended it meanwhile: once more, on a new one
        return await self._once(path, query)

    async def _once(self, path: str, query: Mapping[str, str | int] | None) -> bytes:
        if self._kept is None:
            self._kept = await self._opened()
        head = await self._head(self._kept, path, query)
        async with asyncio.timeout(self._timeout_s):
            return await self._kept.body(head, MOST_BYTES)

    async def _opened(self) -> HttpConnection:
        _, address = await asyncio.to_thread(self._access.asking)
        async with asyncio.timeout(self._timeout_s):
            return await HttpConnection.open(address)

    async def _head(
        self, connection: HttpConnection, path: str, query: Mapping[str, str | int] | None
    ) -> AnswerHead:
        """The beginning of an answer that says yes."""
        words = path + ("?" + urlencode(query) if query else "")
        for is_last in (False, True):
            who, address = await asyncio.to_thread(self._access.asking)
            if address.tls is not connection.tls:
                raise _OtherCertificate("the connection is of an earlier client certificate")
            headers = {"Accept": "application/json", "User-Agent": AGENT}
            if who:
                headers["Authorization"] = who
            self.asked += 1
            async with asyncio.timeout(self._timeout_s):
                head = await connection.ask(words, headers)
            self.clock.heard(head.date_ms)
            if head.status == 200:
                return head
            async with asyncio.timeout(self._timeout_s):
                said = await connection.body(head, MOST_EVENT_BYTES)
            if is_last or head.status != 401 or not self._access.credentials.refused():
                break
        raise _refusal(head, said)


class _OtherCertificate(BrokenAnswer):
    """Who asks has another client certificate by now: that needs another connection."""


async def _changes(
    connection: HttpConnection, head: AnswerHead, shape: type[Any]
) -> AsyncGenerator[WatchedChange]:
    connection.within(QUIET_S)
    connection.pace(PACE_S)
    async with aclosing(connection.lines(head, MOST_EVENT_BYTES)) as lines:
        async for some in lines:
            connection.within(QUIET_S)
            for line in some:
                told = _decoded(line, _WatchEvent, shape)
                if told.type == "ERROR":
                    status = _decoded(line, _WatchEvent, _ApiStatus).object
                    raise ApiRefusal(status.code or 500, status.message)
                yield WatchedChange(told.type, told.object)


def _refusal(head: AnswerHead, said: bytes) -> ApiRefusal:
    try:
        words = msgspec.json.decode(said, type=_ApiStatus).message
    except msgspec.DecodeError:
        words = said[:200].decode("utf-8", "replace")
    told = head.headers.get("retry-after", "")
    return ApiRefusal(head.status, words[:500], float(told) if told.isdecimal() else 0.0)


def _decoded(line: bytes, kind: type[Any], shape: type[Any]) -> Any:  # noqa: ANN401 - ``kind[shape]``
    """An answer; where an object is no plain one, as it is: whoever reads it refuses it alone."""
    try:
        try:
            return _DECODERS[kind, shape].decode(line)
        except msgspec.ValidationError:
            if shape is not PlainObject:
                raise
            return _DECODERS[kind, _AS_DICT].decode(line)
    except msgspec.DecodeError as error:
        said = decoding.in_words(error, line, kind)
        raise BrokenAnswer(f"no JSON of the API: {said}") from error


UNREACHABLE = (OSError, BrokenAnswer)
"""What a connection ends with."""


def refused(access: ClusterAccess, error: ApiRefusal, manifest: str) -> BackendError:
    """A server that says no, in words; ``manifest``: the file that allows what is asked for."""
    return BackendError(
        f"asked the API server of {access.named}; found {error}",
        hint=refusal_hint(error.status, manifest),
    )


def refusal_hint(status: int, manifest: str) -> str:
    """What to do about an answer that is no."""
    if status == 401:
        return "the token has ended or is of another cluster: kubectl get nodes says the same?"
    if status == 403:
        file = f"deploy/kubernetes/{manifest}"
        return f"{file} makes an account that may: kubectl apply -f {file}"
    return "kubectl get --raw /readyz?verbose says how the server is"


def unreachable(access: ClusterAccess, error: BaseException) -> BackendError:
    """A server that does not answer, in words."""
    address = access.address
    where = f"the API server at {address.host}:{address.port} ({access.named})"
    if isinstance(error, ssl.SSLCertVerificationError):
        return BackendError(
            f"asked {where}; its certificate is not trusted: {error.verify_message}",
            hint="certificate-authority of the kubeconfig has to be that of this cluster",
        )
    if isinstance(error, TimeoutError):
        found = "no answer in time"
    elif isinstance(error, OSError) and error.errno and error.errno > 0:
        found = os.strerror(error.errno).lower()
    else:
        found = str(error) or type(error).__name__
    return BackendError(
        f"asked {where}; found {found}", hint="kubectl get --raw /readyz asks the same server"
    )
