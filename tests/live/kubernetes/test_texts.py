"""Lists of JSON are cut into their objects without being read as a whole."""

import gzip
import json
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.live.kubernetes import made
from tidemill.live.kubernetes import objects, texts
from tidemill.live.kubernetes.texts import FileText
from tidemill.model.errors import SpecError


def _any_value(luck: Random, depth: int = 0) -> Any:
    """Any JSON value: brackets and quotes within texts, numbers of every form, nothing at all."""
    kind = luck.randrange(8 if depth < 3 else 6)
    if kind == 6:
        return [_any_value(luck, depth + 1) for _ in range(luck.randrange(4))]
    if kind == 7:
        return {f'k{i}"]': _any_value(luck, depth + 1) for i in range(luck.randrange(4))}
    some = ('"}],\\', "ä\u2028{", -1.5e-7, luck.randrange(10**9), None, luck.random() < 0.5)
    return some[kind]


def _cut(text: bytes) -> list[list[Any] | Any]:
    """What the documents of a text are, put together from its pieces."""
    told = FileText(text)
    found = texts.documents(told)
    assert found is not None, text
    return [
        json.loads(told.read(one.first, one.end)) if one.items is None
        else [json.loads(told.read(a, b)) for a, b in zip(one.items[::2], one.items[1::2],
                                                           strict=True)]
        for one in found
    ]  # fmt: skip


@pytest.mark.parametrize("window", [(4, 8), (64, 256), (1 << 16, 1 << 22)])
@pytest.mark.parametrize("indent", [None, 4])
def test_items_are_those_that_the_whole_text_has(monkeypatch, window, indent: int | None):
    """Whatever a list holds, however it is printed, and wherever a window ends."""
    monkeypatch.setattr(texts, "_LEAST_BYTES", window[0])
    monkeypatch.setattr(texts, "_WINDOW_BYTES", window[1])
    luck = Random(window[0])
    for _ in range(60):
        items = [_any_value(luck) for _ in range(luck.randrange(5))]
        beside = {"apiVersion": "v1", "metadata": {"items": [1]}, "items": items, "kind": "List"}
        whole = dict(luck.sample([*beside.items()], len(beside)))
        text = json.dumps(whole, indent=indent, ensure_ascii=luck.random() < 0.5)
        assert _cut(text.encode()) == [items]


def test_several_values_follow_each_other():
    """As lines, and as kubectl prints them one after the other."""
    lists = '{"items": [{"a": 1}]}\n{"items": []} {"b": [2]}\n\n3 "x"\n'
    assert _cut(lists.encode()) == [[{"a": 1}], [], {"b": [2]}, 3, "x"]


@pytest.mark.parametrize(
    "text", ['{"items": [{},]}', '{"items": [{} {}]}', '{"items": [{}', '{"a": 1,}', '{"a" 1}',
             '{"items": [{"a": nul}]}', '{"items": []', "{", '\ufeff{"items": []}', "]"]
)  # fmt: skip
def test_what_is_no_json_is_not_cut(text: str):
    """It is read as a whole instead, and refused with what is wrong."""
    assert texts.documents(FileText(text.encode())) is None


def _pods(*names: str) -> list[made.Object]:
    return [made.pod(name, 1) for name in names]


@pytest.mark.parametrize("form", ["compact", "pretty", "lines", "packed"])
def test_long_files_tell_the_same_as_short_ones(tmp_path: Path, monkeypatch, form: str):
    """A list that stays in its file, a typed one, one object per line, and one packed by gzip."""
    pods = _pods(*(f"pod-{i}" for i in range(50)))
    listed: dict[str, Any] = {"items": pods, "kind": "PodList", "apiVersion": "v1"}
    text = json.dumps(listed, indent=4 if form == "pretty" else None)
    if form == "lines":
        text = "".join(json.dumps(pod) + "\n" for pod in pods)
    path = tmp_path / ("pods.json.gz" if form == "packed" else "pods.json")
    path.write_bytes(gzip.compress(text.encode()) if form == "packed" else text.encode())
    monkeypatch.setattr(objects, "LONG_BYTES", 1)
    found = objects.load([path]).read("Pod", [""], lambda one: one)
    assert found == pods


def test_a_file_that_is_cut_while_it_is_read_is_refused(tmp_path: Path, monkeypatch):
    """Its size was asked for before; what is missing then is no end of the world."""
    path = tmp_path / "pods.json"
    path.write_text(json.dumps({"items": _pods("a", "b"), "kind": "List"}))
    monkeypatch.setattr(objects, "LONG_BYTES", 1)
    opened = FileText(path.open("rb"))
    path.write_text('{"items": [')
    assert texts.documents(opened) is None


def test_blanks_alone_are_an_empty_file(tmp_path: Path, monkeypatch):
    """As kubectl leaves it where it fails, however long it is."""
    monkeypatch.setattr(objects, "LONG_BYTES", 1)
    path = tmp_path / "pods.json"
    path.write_text("\n" * 100)
    with pytest.raises(SpecError, match="is empty"):
        objects.load([path])
