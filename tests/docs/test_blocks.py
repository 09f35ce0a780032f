"""Every block of code on every page is tried: run, read, or made by the program itself."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest
from typer.testing import CliRunner

from tests.docs import pages
from tidemill.cli import fleet_file
from tidemill.cli.main import app
from tidemill.live.kubernetes import job_rules
from tidemill.live.track.records import parse
from tidemill.model import events
from tidemill.model.errors import SpecError
from tidemill.twin import traces
from tidemill.twin.spec import fleet_spec

TRIED = ("console", "python", "toml", "json", "mermaid")
"""Languages whose blocks a test runs or reads; `mermaid` only as a made part."""
UNTRIED = {
    ("docs/reference/track.md", "$ curl"): (
        "needs a server; tests/live/test_ingest.py posts the record of this page to a real one"
    ),
    ("README.md", "make demo"): "targets of the Makefile, which set up an environment",
    ("README.md", "$ tidemill twin import philly"): "needs a recorded trace; bench/ replays it",
    ("README.md", "src/tidemill/"): "a map of the source",
    ("docs/concepts/journal.md", "$ tidemill twin run fleet.toml run.sqlite --resume"): (
        "needs a run that was killed; tests/journal kills and resumes one"
    ),
    ("docs/concepts/scheduling-cycle.md", "events ──fold──▶"): "a diagram",
    ("docs/concepts/unit.md", "step   = micro-batches"): "a formula; tests/units holds it",
    ("docs/guides/extend.md", "$ pip install ./examples/plugins"): (
        "installs a package; tests/plugins has it found as if it were installed"
    ),
    ("docs/guides/import-your-cluster.md", "squeue --all --states=all -o"): (
        "needs a Slurm; tests/live/slurm/test_joined.py reads the same format from this page"
    ),
    ("docs/guides/first-steps.md", "pipx install"): "installs into the reader's home",
    ("docs/guides/find-slow-nodes.md", "$ tidemill stragglers fleet.sqlite --track"): (
        "needs the reader's jobs; tests/cli has a journal, records and a folder of GPU-minutes"
    ),
    ("docs/guides/find-slow-nodes.md", "$ tidemill stragglers fleet.sqlite --prom"): "as above",
    ("docs/guides/find-slow-nodes.md", "$ tidemill underused"): "as above",
    ("docs/guides/import-your-cluster.md", "sacct --allusers"): (
        "needs a Slurm cluster; tests/live/slurm runs these lines on a real one"
    ),
    ("docs/guides/import-your-cluster.md", "sacctmgr --parsable2"): "as above",
    ("docs/guides/import-your-cluster.md", "tidemill import slurm sacct.txt"): (
        "reads what these lines wrote; tests/live/slurm imports it"
    ),
    ("docs/guides/journal-on-postgresql.md", "$ pip install"): (
        "installs, and needs a server; tests/journal runs these commands on a real one"
    ),
    ("docs/guides/journal-on-postgresql.md", "$ tidemill journal copy"): (
        "needs a server; tests/journal copies to a real one and back"
    ),
    ("docs/guides/journal-on-postgresql.md", "$ tidemill journal roll-up"): (
        "needs a server; tests/journal rolls journals up on a real one"
    ),
    ("docs/guides/journal-on-postgresql.md", "GRANT USAGE"): (
        "needs a server; tests/journal grants these rights on a real one"
    ),
    ("docs/guides/observe-kubernetes.md", "tidemill observe kubernetes --usd-per-hour"): (
        "needs a cluster; tests/live/kubernetes observes a real one"
    ),
    ("docs/guides/observe-kubernetes.md", "kubectl apply -f"): (
        "needs a cluster; tests/live/kubernetes runs these lines on a real one"
    ),
    ("docs/guides/observe-kubernetes.md", "tidemill observe kubernetes --kubeconfig"): "as above",
    ("docs/guides/schedule-kubernetes.md", "kubectl apply -f"): (
        "needs a cluster; tests/live/kubernetes/scheduling/test_guide.py runs it on a real one"
    ),
    ("docs/guides/schedule-kubernetes.md", "server=$(kubectl"): "as above",
    ("docs/guides/schedule-kubernetes.md", "kubectl delete -"): "as above",
    ("docs/guides/schedule-kubernetes.md", "kubectl patch mutating"): "as above",
    ("docs/guides/schedule-kubernetes.md", "apiVersion: kustomize"): "as above",
    ("docs/guides/schedule-kubernetes.md", "components:"): (
        "needs a cluster; tests/live/kubernetes/scheduling/test_deploying.py renders it"
    ),
    ("docs/guides/schedule-kubernetes.md", "tidemill schedule kubernetes --kubeconfig"): (
        "needs a cluster; tests/live/kubernetes/scheduling schedules a real one"
    ),
    ("docs/guides/schedule-kubernetes.md", "tidemill schedule crd"): "as above",
    ("docs/guides/schedule-kubernetes.md", "apiVersion: tidemill.dev/v1alpha1"): "as above",
    ("docs/guides/schedule-kubernetes.md", "apiVersion: batch/v1"): "as above",
    ("docs/reference/kubernetes-jobs.md", "metadata:"): "as above",
    ("docs/guides/observe-your-fleet.md", "tidemill observe slurm"): (
        "needs clusters; tests/live/observing observes some of scripts with these options"
    ),
    ("docs/guides/observe-your-fleet.md", "tidemill observe --config"): "as above",
    ("docs/guides/observe-your-fleet.md", "TIDEMILL_TRACK="): "as above",
    ("docs/guides/observe-slurm.md", "tidemill observe slurm --since"): (
        "needs a Slurm cluster; tests/live/slurm observes a real one"
    ),
    ("docs/guides/observe-slurm.md", "tidemill observe slurm --usd-per-hour"): "as above",
    ("docs/guides/observe-slurm.md", "watching every"): "as above",
    ("docs/guides/observe-slurm.md", "[Unit]"): "a file of systemd",
    ("docs/guides/probe-a-gpu.md", "$ pip install"): "needs a GPU; the commands are checked",
    ("docs/guides/probe-a-gpu.md", "$ tidemill probe compare node-1"): "needs the reader's cards",
    ("docs/guides/prometheus-dcgm.md", "nvidia-smi --query-gpu"): (
        "needs the reader's GPUs; tests/live/nvidia_smi reads what these lines write"
    ),
    ("docs/guides/prometheus-dcgm.md", "$ tidemill prometheus check"): (
        "needs a Prometheus; tests/live/prometheus runs these lines on a real one"
    ),
    ("docs/guides/prometheus-dcgm.md", "$ tidemill import slurm"): "as above",
    ("docs/guides/prometheus-dcgm.md", "$ tidemill prometheus fetch"): "as above",
    ("docs/guides/prometheus-dcgm.md", "sum(avg_over_time"): "as above",
    ("docs/guides/prometheus-dcgm.md", "DCGM_FI_DEV_GPU_UTIL{pod"): "as above",
    ("docs/guides/prometheus-dcgm.md", "max_over_time"): "as above",
    ("docs/guides/import-kubernetes.md", "mkdir -p exported"): "needs the reader's cluster",
    ("docs/guides/track-a-training-job.md", "$ TIDEMILL_TRACK=file:out/track"): (
        "kills a process; tests/track does so twenty times"
    ),
    ("docs/guides/track-a-training-job.md", "$ pip install --no-deps"): (
        "installs a package; tests/track runs without any other"
    ),
    ("docs/guides/track-a-training-job.md", "env:"): "a part of a pod, in YAML",
    ("docs/guides/track-a-training-job.md", "from tidemill.track.adapters"): (
        "needs the frameworks; tests/track plays what they call"
    ),
    ("docs/guides/track-a-training-job.md", "$ tidemill ingest serve /var"): (
        "runs until it is stopped; tests/cli starts and stops one"
    ),
    ("docs/guides/track-a-training-job.md", "$ tidemill ingest send"): (
        "needs a server; tests/track sends to a real one"
    ),
}
"""Blocks that no test tries, by page and beginning, with the reason."""
FLEET = """
[[contract]]
name = "h100"
kind = "H100"
count = 768
usd_per_hour = 2
labels = { "topology.kubernetes.io/zone" = "z1", "topology.kubernetes.io/rack" = "r1" }
[[contract]]
name = "spot"
kind = "H100"
count = 8
usd_per_hour = 1
[[team]]
name = "research"
"""
MESSAGES = {
    ("docs/guides/describe-a-fleet.md", "`fleet.toml`, [[contract]] 2"): FLEET.replace(
        "count = 8\n", "cuont = 8\n"
    ),
    ("docs/reference/exit-codes.md", "error: `fleet.toml`"): FLEET.replace(
        "usd_per_hour = 2", "usd_per_hr = 2"
    ),
}
"""Messages that pages show, and the file that leads to each."""
TRACE = ("docs/guides/import-a-trace.md", "`cluster04.csv`, line 7")


class Found(NamedTuple):
    """A block on a page; whether the program wrote it."""

    page: str
    language: str
    text: str
    is_made: bool

    @property
    def key(self) -> tuple[str, str]:
        """The page and the first line."""
        return self.page, self.text.split("\n", 1)[0]


def found(*languages: str) -> list[Found]:
    """Every block of every page, or those in these languages."""
    every = (one for page in pages.pages() for one in _on(page))
    return [one for one in every if not languages or one.language in languages]


def _on(page: Path) -> Iterator[Found]:
    text = page.read_text(encoding="utf-8")
    made = "".join(pages.made(text).values())
    for block in pages.blocks(text):
        yield Found(pages.name_of(page), block.language, block.text, block.text in made)


def _starts(one: Found, known: tuple[str, str]) -> bool:
    return one.page == known[0] and one.text.startswith(known[1])


def test_every_block_is_tried():
    """No block on any page is left to grow stale, but for those that are listed with a reason."""
    tried = [*UNTRIED, *MESSAGES, TRACE]
    left = [
        one.key
        for one in found()
        if one.language not in TRIED
        and not one.is_made
        and not any(_starts(one, known) for known in tried)
    ]
    assert left == []


def test_every_exception_is_still_there():
    """A listed block that is gone is taken off the list."""
    every = found()
    for known in (*UNTRIED, *MESSAGES, TRACE):
        assert any(_starts(one, known) for one in every), known


@pytest.mark.parametrize("one", found("toml"), ids=lambda one: f"{one.page}:{one.key[1]}")
def test_toml_is_read(one: Found, tmp_path: Path):
    """A part of a spec is read together with a fleet, a catalogue file by itself."""
    if "[[part]]" in one.text or "[[box]]" in one.text:
        path = tmp_path / "own.toml"
        path.write_text(one.text, encoding="utf-8")
        done = CliRunner().invoke(app, ["unit", "show", "our-box", "--catalogue", str(path)])
        assert done.exit_code == 0, done.output
        return
    if "[[slurm]]" in one.text or "[[kubernetes]]" in one.text:
        path = tmp_path / "fleet.toml"
        path.write_text(one.text, encoding="utf-8")
        assert fleet_file.load(path).names
        return
    if "[[rule]]" in one.text:
        path = tmp_path / "rules.toml"
        path.write_text(one.text, encoding="utf-8")
        assert job_rules.read(str(path)).rule
        return
    base = FLEET if "[[contract]]" not in one.text else '[[team]]\nname = "research"\n'
    assert fleet_spec.parse(base + one.text).contracts


@pytest.mark.parametrize("one", found("json"), ids=lambda one: f"{one.page}:{one.key[1][:40]}")
def test_json_is_read(one: Found):
    """Lines are records of `track`, or of a journal: facts, events with a number, its state."""
    for line in one.text.splitlines():
        read = json.loads(line)
        if "v" in read:
            parse(line.encode())
        elif read.pop("seq", None) is not None:
            msgspec.convert(read, events.Event)
        else:
            assert set(read) in ({"facts"}, {"journal"})


@pytest.mark.parametrize("known", MESSAGES)
def test_messages_are_those_of_the_program(known: tuple[str, str]):
    """The message that a page shows is the one that the mistake leads to."""
    (shown,) = (one for one in found() if _starts(one, known))
    with pytest.raises(SpecError) as caught:
        fleet_spec.parse(MESSAGES[known], "fleet.toml")
    said = f"{caught.value.message}\nhint: {caught.value.hint}\n"
    assert shown.text.removeprefix("error: ") == said


def test_the_message_of_a_broken_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The message about a broken row is the one that such a row leads to."""
    monkeypatch.chdir(tmp_path)
    rows = [f"job-{i},{60 * i},900,{1 if i < 6 else 1.5}" for i in range(1, 8)]
    head = "job_id,submission_time,duration,num_gpu"
    Path("cluster04.csv").write_text("\n".join([head, *rows]) + "\n", encoding="utf-8")
    with pytest.raises(SpecError) as caught:
        traces.load("cluster04.csv")
    (shown,) = (one for one in found() if _starts(one, TRACE))
    assert shown.text == f"{caught.value.message}\nhint: {caught.value.hint}\n"


def test_every_page_is_reached_from_the_index():
    """A reader who begins at the index finds every page under docs/."""
    index = pages.DOCS / "index.md"
    linked = {
        (index.parent / link.split("#")[0]).resolve()
        for link in pages.links(index.read_text(encoding="utf-8"))
        if not re.match(r"\w+:", link)
    }
    every = {page.resolve() for page in pages.DOCS.rglob("*.md")} - {index.resolve()}
    assert sorted(page.name for page in every - linked) == []


def test_the_index_has_all_decisions_in_order():
    """One line for each page of the folder, by number, with its title."""
    index = (pages.DOCS / "index.md").read_text(encoding="utf-8")
    listed = re.findall(r"^- \[(\d{4}) .*\]\(decisions/(.*)\)$", index, re.MULTILINE)
    every = sorted(page.name for page in (pages.DOCS / "decisions").glob("*.md"))
    assert [name for _, name in listed] == every
    assert all(name.startswith(number) for number, name in listed)
