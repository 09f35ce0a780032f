"""Extended resources that kube-scheduler gives out by claim, on a real cluster: in books once."""

import os
import subprocess
import sys
from pathlib import Path

from tests.conftest import ROOT
from tests.live.kubernetes.scheduling.test_devices import message
from tests.live.kubernetes.scheduling.test_placing import PODS, nodes_of
from tests.rigs.kubernetes.claimed import API, CLAIMS, allocated
from tests.rigs.kubernetes.cluster import Cluster
from tests.rigs.kubernetes.scheduled import OURS, scheduling
from tests.rigs.kubernetes.wanted import (
    GPU,
    claim,
    claim_spec,
    claiming,
    device,
    device_class,
    node,
    pod,
    resource_slice,
)

MACHINES = ("d0", "d1")


def tidemill(*arguments: str) -> str:
    """What a command prints."""
    done = subprocess.run(
        [sys.executable, "-m", "tidemill", *arguments], cwd=ROOT, capture_output=True, text=True,
        timeout=120, env={**os.environ, "COLUMNS": "200"}, check=True,
    )  # fmt: skip
    return done.stdout


def rows_of(journal: str) -> dict[str, tuple[str, ...]]:
    """By machine: its row of `fleet`."""
    rows = (line.split() for line in tidemill("fleet", "--nodes", "-j", journal).splitlines())
    return {row[0]: tuple(row[1:]) for row in rows if row and row[0] in MACHINES}


def test_what_kube_scheduler_gave_out_is_held_once(rig: Cluster, tmp_path: Path):
    """Two pods have three of four GPUs each by `nvidia.com/gpu: 3`, and a third one waits.

    An observer says so, and of a claim of a class called `h100` too. Of our own pods two get the
    GPUs that are left, by claim; one that asks as the others do is told what would do.
    """
    rig.add_nodes(*(node(name, 0) for name in MACHINES))
    rig.create(f"{API}/deviceclasses", device_class("gpus", extended=GPU), device_class("h100"))
    for name in MACHINES:
        divided = {"allowMultipleAllocations": name == "d1"}
        some = [device(f"gpu-{i}") | divided for i in range(4)]
        rig.create(f"{API}/resourceslices", resource_slice(name, some))
    rig.create(PODS, pod("x0", 3), pod("x1", 3))
    rig.wait_until_running("ml", 2)
    rig.create(CLAIMS, claim("two", claim_spec(2, device_class="h100")))
    rig.create(PODS, pod("x2", 3), pod("y", 0, **claiming(claim="two")))
    rig.wait_for("both are refused", lambda: all(message(rig, name) for name in ("x2", "y")))
    seen, ours = str(tmp_path / "seen.sqlite"), tmp_path / "ours"
    tidemill("observe", "kubernetes", "--kubeconfig", str(rig.kubeconfig), "--usd-per-hour", "2",
             "-j", seen, "--once", "--lateness", "0s")  # fmt: skip
    pending = tidemill("pending", seen)
    assert "2 jobs waiting, 5 GPUs requested; 2 GPUs free" in pending
    assert "ml/y" in pending
    assert f"no node has {GPU}" not in pending
    assert "GPUs by claim" in pending
    ours.mkdir()
    with scheduling(rig, ours) as process:
        process.wait_for("began")
        for name in ("one", "other"):
            rig.create(CLAIMS, claim(name, claim_spec(1, device_class="h100")))
            rig.create(PODS, pod(name, 0, schedulerName=OURS, **claiming(claim=name)))
        rig.create(PODS, pod("asks", 1, schedulerName=OURS))
        rig.wait_until_running("ml", 4)
        rig.wait_for("it is told", lambda: "of DeviceClass `gpus` (DRA)" in message(rig, "asks"))
        assert process.stop() == 0
    rows = rows_of(process.journal)
    assert {nodes_of(rig, name)[name] for name in ("one", "other")} == {*MACHINES}
    given = [one for some in allocated(rig).values() for one in some]
    assert len(given) == len({*given}) == 8
    for name in MACHINES:
        assert rows[name][5:7] == ("4", "0"), "all of its GPUs are in use"
        assert "over-committed" not in " ".join(rows[name])
        assert "claim:" not in " ".join(rows[name])
