"""Files of a cluster in other forms than one list in JSON: the same objects, or what to do."""

import json
from pathlib import Path

import msgspec
import pytest

from tests.live.kubernetes import made
from tidemill.live.kubernetes import translate
from tidemill.model.errors import SpecError

OBJECTS = [made.node("n1"), made.node("n2"), made.pod("a-0", 8, on="n1", bound=0, up=60)]
FORMS = {
    "list.yaml": msgspec.yaml.encode(made.listed(*OBJECTS)),
    "each.yaml": b"# kubectl\n" + b"".join(b"---\n" + msgspec.yaml.encode(o) for o in OBJECTS),
    "array.json": json.dumps(OBJECTS).encode(),
    "pages.json": json.dumps([made.listed(*OBJECTS[:2]), made.listed(OBJECTS[2])]).encode(),
    "lines.json": "\n".join(map(json.dumps, OBJECTS)).encode(),
}


@pytest.mark.parametrize("name", FORMS)
def test_the_same_objects_in_another_form(tmp_path: Path, name: str):
    """YAML of `kubectl get`, of several documents, and what `jq` makes of a list."""
    (tmp_path / name).write_bytes(FORMS[name])
    (tmp_path / "whole.json").write_text(json.dumps(made.listed(*OBJECTS)))
    found, whole = (translate.read([tmp_path / one]) for one in (name, "whole.json"))
    assert [*found.nodes] == [*whole.nodes]
    assert found.attempts.equals(whole.attempts)
    assert len(found.attempts) == 1
    assert found.refusals == 0


def test_a_support_bundle_is_a_folder_of_yaml(tmp_path: Path):
    """One file for each node, and one for the pods of each namespace, beside what is no object."""
    nodes = tmp_path / "must-gather" / "cluster-scoped-resources" / "core" / "nodes"
    pods = tmp_path / "must-gather" / "namespaces" / "ml" / "core"
    for folder in (nodes, pods):
        folder.mkdir(parents=True)
    for one in OBJECTS[:2]:
        name = one["metadata"]["name"]
        (nodes / f"{name}.yaml").write_bytes(b"---\n" + msgspec.yaml.encode(one))
    (pods / "pods.yaml").write_bytes(b"---\n" + msgspec.yaml.encode(made.listed(OBJECTS[2])))
    (pods / "secrets.yaml").write_text("")
    past = translate.read([tmp_path])
    assert [(node.name, node.gpus, node.until_ms) for node in past.nodes] == [
        ("n1", 8, None), ("n2", 8, None),
    ]  # fmt: skip
    assert past.attempts["outcome"].to_list() == ["running"]


def test_yaml_that_is_broken_is_said_with_the_command_that_writes_json(tmp_path: Path):
    """A copy out of a terminal has lost its blanks."""
    (tmp_path / "pods.yaml").write_text("apiVersion: v1\nitems:\n- a: [1\nkind: List\n")
    with pytest.raises(SpecError, match="YAML that cannot be read") as caught:
        translate.read([tmp_path / "pods.yaml"])
    assert "-o json" in (caught.value.hint or "")
