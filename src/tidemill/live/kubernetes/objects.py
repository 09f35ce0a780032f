"""The files of `kubectl get … -o json`: objects by kind, each once.

A file is one `List` (of one kind or of several), a typed list as the API itself answers (`PodList`,
whose items do not repeat their kind), or one object. Of an object that is in several files the
youngest counts. What is no object is refused by file and number; the rest counts.

Of the objects of a list the text is kept until somebody asks for their kind: read, a pod takes
several times as much memory.
"""

import gzip
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec

from tidemill.live.kubernetes import fields
from tidemill.live.kubernetes.fields import MalformedObjectError, Object
from tidemill.model.errors import SpecError

MOST_BYTES = 2 << 30
"""Of one file; 100,000 pods are about 1 GB. What is larger is asked for in parts."""
MOST_REFUSED = 1000
LONGEST_NAME = 253
"""Of an object, by the API's own rule."""

Read = TypeVar("Read")


class RefusedObject(NamedTuple):
    """An object that was left out."""

    where: str
    """Its kind and name, or the file and the number in it."""
    found: str

    def words(self) -> str:
        """As a person reads it."""
        return f"{self.where}: {self.found}"


class _Meta(msgspec.Struct):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resourceVersion: str = ""  # noqa: N815 - as the API writes it


class _Head(msgspec.Struct):
    """What tells an object from others."""

    kind: str = ""
    apiVersion: str = ""  # noqa: N815 - as the API writes it
    metadata: _Meta = msgspec.field(default_factory=_Meta)
    items: msgspec.Raw | None = None


class _UnreadList(msgspec.Struct):
    """A list whose objects are not read yet."""

    items: list[msgspec.Raw]
    kind: str = ""
    apiVersion: str = ""  # noqa: N815 - as the API writes it


class UnreadObject(NamedTuple):
    """The text of an object, and what the list around it says for all."""

    raw: msgspec.Raw
    version: str

    def read(self) -> Object:
        """The object; its text was found to be JSON when the list was read."""
        one: Object = msgspec.json.decode(self.raw)
        return one if "apiVersion" in one else {"apiVersion": self.version, **one}


_Kept = tuple[int, str, Object | UnreadObject]
"""The number of its version, its uid, and itself."""
_HEADS = msgspec.json.Decoder(_Head)
_LISTS = msgspec.json.Decoder(_UnreadList)


class Objects:
    """Everything that the files hold, by API group and kind."""

    def __init__(self) -> None:
        self._by_kind: dict[tuple[str, str], dict[tuple[str, str], _Kept]] = {}
        self.refused: list[RefusedObject] = []
        self.refusals = 0
        self.unread: Counter[str] = Counter()
        """Objects of kinds that nobody asked for, once all were asked for."""
        self._asked: set[tuple[str, str]] = set()
        self.latest_ms = 0
        """The youngest time of any object that was taken."""

    def read(self, kind: str, groups: Iterable[str], take: Callable[[Object], Read]) -> list[Read]:
        """What a function makes of each object of a kind; what it cannot read is refused."""
        found = []
        for group in groups:
            self._asked.add((group, kind))
            for (namespace, name), (*_, one) in self._by_kind.get((group, kind), {}).items():
                try:
                    found.append(take(one.read() if isinstance(one, UnreadObject) else one))
                except (MalformedObjectError, msgspec.DecodeError, UnicodeDecodeError) as error:
                    self.refuse(f"{kind} {namespace + '/' if namespace else ''}{name}", str(error))
        return found

    def refuse(self, where: str, found: str) -> None:
        """Leave something out, and remember that."""
        self.refusals += 1
        if len(self.refused) < MOST_REFUSED:
            self.refused.append(RefusedObject(where, found))

    def add(self, one: object, where: str, kind: str = "", version: str = "") -> None:
        """Take an object in."""
        if not isinstance(one, dict):
            self.refuse(where, "no object")
            return
        try:
            kind = fields.text(one, "kind") or kind
            version = fields.text(one, "apiVersion") or version
            if "items" in one:
                self._add_list(one, where, kind, version)
                return
            if kind == "Status":
                said = fields.text(one, "message") or "no message"
                self.refuse(where, f"the API server's error in place of objects: {said[:200]}")
                return
            keys = ("namespace", "name", "uid", "resourceVersion")
            meta = _Meta(**{key: fields.text(one, "metadata", key) for key in keys})
        except MalformedObjectError as error:
            self.refuse(where, str(error))
            return
        if "apiVersion" not in one:  # the list said it for all
            one = {"apiVersion": version, **one}
        self._keep(one, _Head(kind, version, meta), where)

    def add_text(self, told: bytes, where: str) -> None:
        """Take in what a file holds; JSON that is no list of objects is read at once."""
        try:
            listed = _LISTS.decode(told)
        except msgspec.ValidationError:
            self.add(msgspec.json.decode(told), where)
            return
        of = listed.kind.removesuffix("List")
        version = listed.apiVersion if of else ""
        for i, raw in enumerate(listed.items, 1):
            place = f"{where}, item {i}"
            head = _head(raw)
            if head is None or head.kind == "Status":
                self.add(msgspec.json.decode(raw), place, of, version)
                continue
            if head.items is not None:
                self.refuse(place, "a list in a list")
                continue
            head.kind, head.apiVersion = head.kind or of, head.apiVersion or version
            self._keep(UnreadObject(raw, version), head, place)

    def _keep(self, one: Object | UnreadObject, head: _Head, where: str) -> None:
        meta = head.metadata
        if (
            not head.kind
            or not meta.name
            or max(len(meta.name), len(meta.namespace)) > LONGEST_NAME
        ):
            self.refuse(
                where, "is no object of the API: it has no name, or does not say what it is"
            )
            return
        group, age, name = head.apiVersion.rpartition("/")[0], meta.resourceVersion, meta.name
        mine = self._by_kind.setdefault((group, head.kind), {})
        number = int(age) if age.isdecimal() and len(age) < 19 else 0
        known = mine.get((meta.namespace, name))
        if known is not None and head.kind == "Pod" and known[1] and meta.uid not in ("", known[1]):
            name += f" ({meta.uid})"  # exports of several days have both
            known = mine.get((meta.namespace, name))
        if known is None or known[0] <= number:
            mine[meta.namespace, name] = (number, meta.uid, one)

    def _add_list(self, told: dict[str, Any], where: str, kind: str, version: str) -> None:
        items = told["items"]
        if not isinstance(items, list):
            self.refuse(where, "`items` is no list")
            return
        of = kind.removesuffix("List")
        for i, one in enumerate(items, 1):
            if isinstance(one, dict) and "items" in one:
                self.refuse(f"{where}, item {i}", "a list in a list")
            else:
                self.add(one, f"{where}, item {i}", of, version if of else "")

    def left(self) -> Counter[str]:
        """Objects of kinds that nobody asked for."""
        return Counter({
            kind: len(mine) for (group, kind), mine in self._by_kind.items()
            if (group, kind) not in self._asked
        })  # fmt: skip


def _head(raw: msgspec.Raw) -> _Head | None:
    """What tells an object from others; None: something is in it that is in none."""
    try:
        return _HEADS.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def load(paths: Sequence[Path]) -> Objects:
    """All objects of these files; of a folder, of every `.json` and `.json.gz` in it."""
    found, read = Objects(), [*_files(paths)]
    has_text = [_read_file(path, found) for path in read]
    if not any(has_text):
        named = ", ".join(f"`{path}`" for path in read[:3]) + (", …" if len(read) > 3 else "")
        raise SpecError(
            f"{named} {'is' if len(read) == 1 else 'are'} empty",
            hint="kubectl writes nothing where it fails: run `kubectl get nodes,pods -A -o json`"
            " and look at what it says",
        )
    return found


def _files(paths: Sequence[Path]) -> Iterator[Path]:
    for path in paths:
        if not path.is_dir():
            yield path
            continue
        inside = sorted(p for p in path.iterdir() if p.name.endswith((".json", ".json.gz")))
        if not inside:
            raise SpecError(
                f"folder `{path}` has no .json file",
                hint="write one with `kubectl get pods -A -o json > pods.json`",
            )
        yield from inside


def _read_file(path: Path, found: Objects) -> bool:
    """Take in the objects of a file; whether there is anything in it."""
    try:
        if path.stat().st_size > MOST_BYTES:
            raise SpecError(
                f"`{path}` has more than {MOST_BYTES >> 30} GiB",
                hint="get one namespace at a time: kubectl get pods -n NAME -o json",
            )
        raw = path.read_bytes()
        if path.suffix == ".gz":
            raw = _inflated(raw, path)
        if not raw.strip():
            return False
        found.add_text(raw, path.name)
    except OSError as error:
        raise SpecError(
            f"`{path}` cannot be read: {error.strerror}", hint="check the path"
        ) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise SpecError(
            f"`{path}` is not JSON: {str(error)[:200]}",
            hint="write it with `kubectl get … -o json`; one that was cut off must be made again",
        ) from error
    return True


def _inflated(raw: bytes, path: Path) -> bytes:
    try:
        opened = zlib.decompressobj(wbits=31)
        made = opened.decompress(raw, MOST_BYTES)
    except (zlib.error, gzip.BadGzipFile) as error:
        raise SpecError(f"`{path}` is no gzip file", hint="compress it again") from error
    if opened.unconsumed_tail or not opened.eof:
        raise SpecError(f"`{path}` is cut off, or too large", hint="make the file again")
    return made
