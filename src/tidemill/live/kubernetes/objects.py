"""The files of `kubectl get … -o json`: objects by kind, each once.

A file is one `List` (of one kind or of several), a typed list as the API itself answers (`PodList`,
whose items do not repeat their kind), or one object. Of an object that is in several files the
youngest counts. What is no object is refused by file and number; the rest counts.
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


class Objects:
    """Everything that the files hold, by API group and kind."""

    def __init__(self) -> None:
        self._by_kind: dict[tuple[str, str], dict[tuple[str, str], tuple[int, Object]]] = {}
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
            for (namespace, name), (_, one) in self._by_kind.get((group, kind), {}).items():
                try:
                    found.append(take(one))
                except MalformedObjectError as error:
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
            group = version.rpartition("/")[0]
            namespace, name = (fields.text(one, "metadata", key) for key in ("namespace", "name"))
            if not kind or not name or len(name) > LONGEST_NAME or len(namespace) > LONGEST_NAME:
                self.refuse(
                    where, "is no object of the API: it has no name, or does not say what it is"
                )
                return
            age = fields.text(one, "metadata", "resourceVersion")
        except MalformedObjectError as error:
            self.refuse(where, str(error))
            return
        if "apiVersion" not in one:  # the list said it for all
            one = {"apiVersion": version, **one}
        mine = self._by_kind.setdefault((group, kind), {})
        number = int(age) if age.isdecimal() and len(age) < 19 else 0
        if (namespace, name) not in mine or mine[namespace, name][0] <= number:
            mine[namespace, name] = (number, one)

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

    def count(self) -> int:
        """How many objects there are."""
        return sum(map(len, self._by_kind.values()))

    def left(self) -> Counter[str]:
        """Objects of kinds that nobody asked for."""
        return Counter({
            kind: len(mine) for (group, kind), mine in self._by_kind.items()
            if (group, kind) not in self._asked
        })  # fmt: skip


def load(paths: Sequence[Path]) -> Objects:
    """All objects of these files; of a folder, of every `.json` and `.json.gz` in it."""
    found = Objects()
    for path in _files(paths):
        found.add(_decoded(path), path.name)
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


def _decoded(path: Path) -> object:
    try:
        if path.stat().st_size > MOST_BYTES:
            raise SpecError(
                f"`{path}` has more than {MOST_BYTES >> 30} GiB",
                hint="get one namespace at a time: kubectl get pods -n NAME -o json",
            )
        raw = path.read_bytes()
        if path.suffix == ".gz":
            raw = _inflated(raw, path)
        return msgspec.json.decode(raw) if raw.strip() else {"kind": "List", "items": []}
    except OSError as error:
        raise SpecError(
            f"`{path}` cannot be read: {error.strerror}", hint="check the path"
        ) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise SpecError(
            f"`{path}` is not JSON: {str(error)[:200]}",
            hint="write it with `kubectl get … -o json`; one that was cut off must be made again",
        ) from error


def _inflated(raw: bytes, path: Path) -> bytes:
    try:
        opened = zlib.decompressobj(wbits=31)
        made = opened.decompress(raw, MOST_BYTES)
    except (zlib.error, gzip.BadGzipFile) as error:
        raise SpecError(f"`{path}` is no gzip file", hint="compress it again") from error
    if opened.unconsumed_tail or not opened.eof:
        raise SpecError(f"`{path}` is cut off, or too large", hint="make the file again")
    return made
