"""A file that was given to the wrong command: it is said what it is, and which command reads it."""

import gzip
import json
import tarfile
import zipfile
from itertools import product
from pathlib import Path

import pytest

from tests.cli.shell import tidemill

HISTORY = Path("examples/history")
TRACK = Path("examples/track/h200-service/records.jsonl")
COMMANDS = ("csv", "slurm", "kubernetes", "track")
FILES = {
    "jobs.csv": ("csv", "it is a table of jobs: tidemill import csv"),
    "nodes.csv": ("", "it is a table of nodes: tidemill import csv JOBS --nodes"),
    "prices.csv": ("", "it is a table of prices: give it beside the jobs: --prices"),
    "sacct.txt": ("slurm", "is what a command of Slurm prints"),
    "nodes.txt": ("slurm", "is what a command of Slurm prints"),
    "slurm.json": ("slurm", "is what a command of Slurm prints with --json"),
    "kubernetes.json": ("kubernetes", "is what `kubectl get … -o json` prints"),
    "pods.yaml": ("kubernetes", "is YAML of Kubernetes"),
    "dump.tar.gz": ("", "is an archive"),
    "dump.zip": ("", "is an archive"),
    "records.jsonl": ("track", "holds records of tidemill.track"),
    "fleet.toml": ("", "is a list of sources"),
    "spec.toml": ("", "is a spec, or a policy"),
    "old.sqlite": ("", "is a journal, or another SQLite database"),
    "jobs.xlsx": ("", "is a spreadsheet"),
}
READERS = {
    "csv": "tidemill import csv",
    "slurm": "tidemill import slurm",
    "kubernetes": "tidemill import kubernetes",
    "track": "tidemill import track",
}


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one file of each kind."""
    made = tmp_path_factory.mktemp("given")
    for name in ("jobs.csv", "nodes.csv", "prices.csv", "sacct.txt", "nodes.txt",
                 "kubernetes.json"):  # fmt: skip
        (made / name).write_bytes((HISTORY / name).read_bytes())
    (made / "records.jsonl").write_bytes(TRACK.read_bytes())
    (made / "slurm.json").write_text('{"meta": {"Slurm": {"release": "22.05"}}, "jobs": []}')
    (made / "pods.yaml").write_text("apiVersion: v1\nitems: []\nkind: List\n")
    (made / "fleet.toml").write_text('[[slurm]]\nname = "a"\n')
    (made / "spec.toml").write_text("[twin]\nseed = 3\n")
    for name, inner in (("jobs.xlsx", "[Content_Types].xml"), ("dump.zip", "nodes.json")):
        with zipfile.ZipFile(made / name, "w") as archive:
            archive.writestr(inner, "{}")
    with tarfile.open(made / "dump.tar.gz", "w:gz") as packed:
        packed.add(made / "kubernetes.json", "nodes.json")
    done = tidemill("import", "csv", str(made / "jobs.csv"), "-j", str(made / "old.sqlite"))
    assert done.code == 0, done.err
    return made


@pytest.mark.parametrize(("command", "name"), [
    pair for pair in product(COMMANDS, FILES) if FILES[pair[1]][0] != pair[0]
])  # fmt: skip
def test_the_right_command_is_named(given: Path, command: str, name: str):
    """Of every file and every command that does not read it; nothing is written."""
    reader, what = FILES[name]
    journal = given / f"{command}.sqlite"
    done = tidemill("import", command, str(given / name), "-j", str(journal))
    said = " ".join(done.err.split())
    assert done.code == 2
    assert what in said
    assert READERS.get(reader, "") in said
    assert not journal.exists()


@pytest.mark.parametrize(
    ("command", "name", "more"),
    [
        ("csv", "jobs.csv", ()),
        ("slurm", "sacct.txt", ("--zone", "UTC")),
        ("kubernetes", "kubernetes.json", ()),
    ],
)
def test_packed_files_are_read_as_they_are(
    given: Path, tmp_path: Path, command: str, name: str, more: tuple[str, ...]
):
    """By every import, with the same books; one that is cut off is said to be."""
    packed, cut = tmp_path / f"{name}.gz", tmp_path / f"cut-{name}.gz"
    packed.write_bytes(gzip.compress((given / name).read_bytes()))
    cut.write_bytes(packed.read_bytes()[:-20])
    out = [
        tidemill("import", command, str(path), *more, "-j", str(tmp_path / "j.sqlite"), "--force")
        for path in (given / name, packed, cut)
    ]
    assert [done.code for done in out] == [0, 0, 2]
    assert out[0].out == out[1].out.replace(".gz", "")
    assert f"{cut.name}` is cut off, or " in out[2].err


def test_nodes_alone_are_no_history(given: Path, tmp_path: Path):
    """It is said what is missing, and how to get it."""
    journal = str(tmp_path / "j.sqlite")
    done = tidemill("import", "slurm", str(given / "nodes.txt"), "--zone", "UTC", "-j", journal)
    assert done.code == 2
    assert "nodes.txt` tells of no job with GPUs" in done.err
    assert "add what tells of jobs: sacct --allusers" in done.err


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-be"])
def test_objects_are_read_as_windows_writes_them(given: Path, tmp_path: Path, encoding: str):
    """With a mark, or in UTF-16 (`kubectl … > FILE` in PowerShell)."""
    text = (given / "kubernetes.json").read_text()
    path = tmp_path / "kubernetes.json"
    path.write_text(("\ufeff" if encoding == "utf-16-be" else "") + text, encoding=encoding)
    out = [tidemill("import", "kubernetes", str(one), "-j", str(tmp_path / "j.sqlite"), "--force")
           for one in (given / "kubernetes.json", path)]  # fmt: skip
    assert [done.code for done in out] == [0, 0], out[1].err
    assert out[0].out == out[1].out


def test_what_is_wrong_with_an_object_names_its_field(given: Path, tmp_path: Path):
    """`N/A` GPUs of a node, metadata that is none, something after the JSON."""
    path, journal = tmp_path / "cluster.json", str(tmp_path / "j.sqlite")
    node = {"kind": "Node", "apiVersion": "v1", "metadata": {"name": "n1"},
            "status": {"capacity": {"nvidia.com/gpu": "N/A"}}}  # fmt: skip
    pod = {"kind": "Pod", "apiVersion": "v1", "metadata": 3}
    path.write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": [node, pod]}))
    done = tidemill("import", "kubernetes", str(path), "-j", journal)
    said = " ".join(done.err.split())
    assert done.code == 2
    assert "Node n1: `status.capacity.nvidia.com/gpu` is 'N/A', which is no quantity" in said
    assert "item 2: `metadata` is a number, not an object" in said
    assert "tells of no job with GPUs; what was left out is said above" in said
    path.write_text('{"kind": "List",\n"items": []}\nsome more\n')
    done = tidemill("import", "kubernetes", str(path), "-j", journal)
    assert "is not JSON: it ends, and then comes, in line 3: `some more`" in done.err


@pytest.mark.parametrize("name", ["jobs.csv", "sacct.txt", "kubernetes.json", "records.jsonl"])
def test_a_history_is_no_trace(given: Path, tmp_path: Path, name: str):
    """`twin import` simulates published traces; of one's own cluster the other import is named."""
    done = tidemill("twin", "import", str(given / name), "-j", str(tmp_path / "j.sqlite"))
    said = " ".join(done.err.split())
    assert done.code == 2
    assert f"for what happened: {READERS[FILES[name][0]]}" in said
