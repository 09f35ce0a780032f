"""The files of `kubectl get … -o json`: objects by kind, each once.

A file is one `List` (of one kind or of several), a typed list as the API itself answers (`PodList`,
whose items do not repeat their kind), or one object. Of an object that is in several files the
youngest counts; what later ones do not show any more is gone (``exports``). What is no object is
refused by file and number; the rest counts.

Of the objects of a list it is kept where their text is until somebody asks for their kind
(``texts``): read, a pod takes several times as much memory, and the text of long files stays there.
"""

import io
import tempfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeVar, cast

import msgspec

from tidemill.journal import spilling
from tidemill.live import foreign
from tidemill.live.kubernetes import exports, fields, texts, yaml_texts
from tidemill.live.kubernetes.exports import ExportFile, LastShown
from tidemill.live.kubernetes.fields import MalformedObjectError, Object
from tidemill.live.kubernetes.nodes import KubeNode
from tidemill.live.kubernetes.owners import KINDS, OwnerObject
from tidemill.live.kubernetes.pods import KubePod
from tidemill.live.kubernetes.texts import FileText
from tidemill.model import decoding
from tidemill.model.errors import SpecError

_ENDINGS = (".json", ".json.gz", ".yaml", ".yml", ".yaml.gz", ".yml.gz")
MOST_BYTES = 2 << 30
"""Of one file; 100,000 pods are about 1 GB. What is larger is asked for in parts."""
LONG_BYTES = 1 << 20
"""From so many on a text stays in its file: the files of a folder may be many, and are short."""
_PIECE_BYTES = 1 << 20
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


class UnreadObject(NamedTuple):
    """Where the text of an object is, and what the list around it says for all."""

    text: FileText
    first: int
    end: int
    version: str

    def read(self) -> Object:
        """The object; its text was found to be JSON when the list was read."""
        one: Object = msgspec.json.decode(self.text.read(self.first, self.end))
        return one if "apiVersion" in one else {"apiVersion": self.version, **one}


_Kept = tuple[tuple[int, int], str, Object | UnreadObject]
"""The number of its version and the youngest time in it, its uid, and itself."""
_AGAIN = frozenset({"Pod", "Node", *KINDS})
"""Kinds of which several may have had one name after each other, and all are booked."""
_HEADS = msgspec.json.Decoder(_Head)


class Objects:
    """Everything that the files hold, by API group and kind."""

    def __init__(self) -> None:
        self._by_kind: dict[tuple[str, str], dict[tuple[str, str], _Kept]] = {}
        self.refused: list[RefusedObject] = []
        self.refusals = 0
        self.unread: Counter[str] = Counter()
        """Objects of kinds that nobody asked for, once all were asked for."""
        self._asked: set[tuple[str, str]] = set()
        self._files: list[ExportFile] = []
        """What each file shows, where there are several."""
        self._last: dict[tuple[str, str], dict[tuple[str, str], LastShown]] = {}
        self._goes_on: dict[str, tuple[str, int]] = {}
        """By kind of list: where one goes on on another page, and how many more there are."""
        self._whole: set[str] = set()
        """Kinds of lists of which one is whole, or the last page."""

    def read(self, kind: str, groups: Iterable[str], take: Callable[[Object], Read]) -> list[Read]:
        """What a function makes of each object of a kind; what it cannot read is refused.

        Once for each kind: nothing is kept of what was read.
        """
        found = list[Read]()
        for group in groups:
            assert (group, kind) not in self._asked, "what was read is not kept"
            self._asked.add((group, kind))
            last = self._last.pop((group, kind), {})
            for (namespace, name), (*_, one) in self._by_kind.pop((group, kind), {}).items():
                try:
                    row = take(one.read() if isinstance(one, UnreadObject) else one)
                    found += _as_shown(row, last.get((namespace, name)))
                except (MalformedObjectError, msgspec.DecodeError, UnicodeDecodeError) as error:
                    self.refuse(f"{kind} {namespace + '/' if namespace else ''}{name}", str(error))
        return found

    def refuse(self, where: str, found: str, count: int = 1) -> None:
        """Leave something out, and remember that."""
        for file in self._files[-1:]:  # what is missing in it may be this
            file.is_cut = True
        self.refusals += count
        if len(self.refused) < MOST_REFUSED:
            self.refused.append(RefusedObject(where, found))

    def begin(self, folder: str, name: str) -> None:
        """What is taken in from now on is in this file."""
        self._files.append(ExportFile(folder, name))

    def compare(self) -> None:
        """All files were taken in: what later ones do not show is known, and which pages lack."""
        for kind, (where, count) in self._goes_on.items():
            if kind not in self._whole:
                found = (
                    f"{kind or 'the list'} goes on on another page, and that is in no file: what is"
                    " there is in no books (kubectl get … -o json writes all of it)"
                )
                self.refuse(where, found, count)
        self._last, self._files = exports.last_shown(self._files), []

    def add(
        self, one: object, where: str, kind: str = "", version: str = "", *, is_listed: bool = False
    ) -> None:
        """Take an object in, or each of an array of them, which may be a choice (`jq`)."""
        if isinstance(one, list) and not is_listed:
            for i, inner in enumerate(one, 1):
                self.add(inner, f"{where}, item {i}", is_listed=isinstance(inner, list))
            return
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
        self._keep(one, _Head(kind, version, meta), where, one, is_listed=is_listed)

    def add_text(self, told: FileText, where: str) -> bool:
        """Take in what a file holds, which may be several lists and objects; whether it is any."""
        found = texts.documents(told)
        if found is None:  # it is read as a whole to be told what is wrong
            self.add(msgspec.json.decode(told.read(0, told.size)), where)
            return True
        for i, one in enumerate(found, 1):
            place = where if len(found) == 1 else f"{where}, value {i}"
            if len(found) > 1:  # each may be of another moment
                self.begin(self._files[-1].folder if self._files else "", place)
            kind, version = one.told.get("kind", ""), one.told.get("apiVersion", "")
            if one.items is None or not isinstance(kind, str) or not isinstance(version, str):
                self._add_unread(told, one.first, one.end, place)
                continue
            self._is_cut(one.told, place)
            of = kind.removesuffix("List")
            spans = zip(one.items[::2], one.items[1::2], strict=True)
            for k, (first, end) in enumerate(spans, 1):
                self._add_unread(
                    told, first, end, f"{place}, item {k}", of, version if of else "", in_list=True
                )
        return bool(found)

    def _add_unread(  # noqa: PLR0913 - named, but for where it is
        self, told: FileText, first: int, end: int, where: str, kind: str = "", version: str = "",
        *, in_list: bool = False,
    ) -> None:  # fmt: skip
        """Take an object in of which no more is read than what tells it from others."""
        raw = told.read(first, end)
        head = _head(raw)
        is_list = head is not None and head.items is not None
        if is_list and in_list:
            self.refuse(where, "a list in a list")
        elif head is None or is_list or head.kind == "Status":
            self.add(msgspec.json.decode(raw), where, kind, version, is_listed=in_list)
        else:
            head.kind, head.apiVersion = head.kind or kind, head.apiVersion or version
            unread = UnreadObject(told, first, end, version)
            self._keep(unread, head, where, raw, is_listed=in_list)

    def _is_cut(self, told: dict[str, Any], where: str) -> None:
        """Remember whether a list goes on on another page."""
        meta, kind = told.get("metadata"), str(told.get("kind", ""))
        if not isinstance(meta, dict) or not meta.get("continue"):
            self._whole.add(kind)
            return
        for file in self._files[-1:]:
            file.is_cut = True
        more = meta.get("remainingItemCount")  # nobody counts those that a selector leaves
        self._goes_on.setdefault(kind, (where, more if isinstance(more, int) and more > 0 else 1))

    def _keep(
        self, one: Object | UnreadObject, head: _Head, where: str, told: Object | bytes,
        *, is_listed: bool,
    ) -> None:  # fmt: skip
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
        is_again = known is not None and known[1] and meta.uid not in ("", known[1])
        if is_again and head.kind in _AGAIN:
            name += f" ({meta.uid})"  # exports of several days have both
            known = mine.get((meta.namespace, name))
        at_ms = 0
        for file in self._files[-1:]:
            key = (meta.namespace, name)
            at_ms = file.show((group, head.kind), key, told, is_listed=is_listed)
        if known is None or known[0] <= (number, at_ms):
            mine[meta.namespace, name] = ((number, at_ms), meta.uid, one)

    def _add_list(self, told: dict[str, Any], where: str, kind: str, version: str) -> None:
        items = told["items"]
        if not isinstance(items, list):
            self.refuse(where, "`items` is no list")
            return
        self._is_cut(told, where)
        of = kind.removesuffix("List")
        for i, one in enumerate(items, 1):
            if isinstance(one, dict) and "items" in one:
                self.refuse(f"{where}, item {i}", "a list in a list")
            else:
                place = f"{where}, item {i}"
                self.add(one, place, of, version if of else "", is_listed=True)

    def left(self) -> Counter[str]:
        """Objects of kinds that nobody asked for."""
        return Counter({
            kind: len(mine) for (group, kind), mine in self._by_kind.items()
            if (group, kind) not in self._asked
        })  # fmt: skip


def _as_shown(row: Read, last: LastShown | None) -> Iterator[Read]:
    """What is to be known of an object that later exports may lack.

    Pods, nodes and owners were there; of the others only those count that are there now.
    """
    is_kept = isinstance(row, KubePod | KubeNode | OwnerObject)
    if last is None or (last.gone_ms is None and not is_kept):
        yield row
    elif is_kept:
        yield cast("Read", _last_shown(cast("KubePod | KubeNode | OwnerObject", row), last))


def _last_shown(
    row: KubePod | KubeNode | OwnerObject, last: LastShown
) -> KubePod | KubeNode | OwnerObject:
    if last.gone_ms is None:
        return msgspec.structs.replace(row, last_ms=last.last_ms)
    return row.vanished(last.last_ms, last.gone_ms)


def _head(raw: bytes) -> _Head | None:
    """What tells an object from others; None: something is in it that is in none."""
    try:
        return _HEADS.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def load(paths: Sequence[Path]) -> Objects:
    """All objects of these files; of a folder, of every file of JSON or YAML under it."""
    found, read = Objects(), [*_files(paths)]
    has_text = list[bool]()
    for path in read:
        if len(read) > 1:
            found.begin(str(path.parent), path.name)
        has_text.append(_read_file(path, found, is_chosen=path in paths))
    found.compare()
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
        inside = sorted(p for p in path.rglob("*.*") if p.name.endswith(_ENDINGS))
        if not inside:
            raise SpecError(
                f"folder `{path}` has no .json or .yaml file",
                hint="write one with `kubectl get pods -A -o json > pods.json`",
            )
        yield from inside


def _read_file(path: Path, found: Objects, *, is_chosen: bool) -> bool:
    """Take in the objects of a file; whether there is anything in it."""
    try:
        foreign.refuse(path, "kubernetes")
    except SpecError as error:
        if is_chosen:
            raise
        found.refuse(path.name, error.message)
        return True
    try:
        if path.stat().st_size > MOST_BYTES:
            raise SpecError(
                f"`{path}` has more than {MOST_BYTES >> 30} GiB",
                hint="get one namespace at a time: kubectl get pods -n NAME -o json",
            )
        text = _in_utf_8(_text(path))
        if yaml_texts.is_yaml(text):
            text = yaml_texts.as_json(text, path)
        return found.add_text(text, path.name)
    except OSError as error:
        raise SpecError(
            f"`{path}` cannot be read: {error.strerror}", hint="check the path"
        ) from error
    except decoding.FAULTS as error:
        raise SpecError(
            f"`{path}` is not JSON: {decoding.broken(error, text.read(0, text.size))}",
            hint=foreign.hint(path, "kubernetes")
            or "write it with `kubectl get … -o json`; one that was cut off must be made again",
        ) from error


def _in_utf_8(text: FileText) -> FileText:
    """The same; in memory, where it has a mark or is UTF-16."""
    if text.read(0, min(3, text.size)).startswith(foreign.MARKS):
        return FileText(foreign.as_utf_8(text.read(0, text.size)))
    return text


def _text(path: Path) -> FileText:
    """What a file holds: a long one stays there, what was packed in one without a name."""
    if path.suffix == ".gz":
        return _inflated(path)
    if path.is_file() and path.stat().st_size >= LONG_BYTES:
        return FileText(path.open("rb"))
    return FileText(path.read_bytes())


def _inflated(path: Path) -> FileText:
    with ExitStack() as open_files:
        text = open_files.enter_context(_unnamed())
        try:
            _inflate(path, text)
        except foreign.CUT_OFF as error:
            raise foreign.cut_off(path) from error
        if text.tell() >= LONG_BYTES and not isinstance(text, io.BytesIO):
            text.flush()
            open_files.pop_all()
            return FileText(text)
        text.seek(0)
        return FileText(text.read())


def _inflate(path: Path, text: IO[bytes]) -> None:
    """Unpack a file piece by piece."""
    opened = zlib.decompressobj(wbits=31)
    with path.open("rb") as packed:
        while not opened.eof and (some := packed.read(_PIECE_BYTES)):
            while some and text.tell() <= MOST_BYTES:
                text.write(opened.decompress(some, _PIECE_BYTES))
                some = opened.unconsumed_tail
    if text.tell() > MOST_BYTES or not opened.eof:
        raise SpecError(f"`{path}` is cut off, or too large", hint="make the file again")


def _unnamed() -> IO[bytes]:
    """A file that is gone when nobody reads it; in memory where there is no place for one."""
    try:
        return tempfile.TemporaryFile(dir=spilling.FOLDER)
    except OSError:
        return io.BytesIO()
