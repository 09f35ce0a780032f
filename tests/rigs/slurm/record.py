"""One story on a real Slurm, and what every command prints of it in every form, kept as files:
``python -m tests.rigs.slurm.record FOLDER``.

The same moment in text and JSON, cleaned of what is of the machine. ``tests/live/slurm/printed``
has it of two versions; `PATH=$(tools/slurm24.sh):$PATH` in front takes the newer one.
"""

import gzip
import json
import re
import shlex
import socket
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.rigs.slurm import cluster, story
from tests.rigs.slurm.cluster import Cluster, RigError
from tests.rigs.slurm.story import WAITS, Told
from tidemill.live.slurm.commands import ASSOCIATION_COLUMNS
from tidemill.live.slurm.joined import SQUEUE_FORMAT

SACCT = "sacct --allusers --duplicates"
TEXTS = {
    "sacct": f"{SACCT} --starttime now-1hour --parsable2 --delimiter=\x1f --format ALL",
    "sacct_x": f"{SACCT} --starttime now-1hour --allocations --parsable2 --delimiter=\x1f"
    " --format ALL",
    "squeue": f"squeue --all --states=all -o '{SQUEUE_FORMAT}'",
    "jobs": "scontrol --all --details --oneliner show job",
    "nodes": "scontrol --all --details --oneliner show node",
    "sinfo": "sinfo -N -a -o '%N|%T|%G|%c|%m|%E|%H|%P|%b|%f'",
    "partitions": "scontrol --all --oneliner show partition",
    "reservations": "scontrol --oneliner show reservation",
    "events": "sacctmgr --parsable2 show event All_Time Start=now-1hour",
    "reserved": "sacctmgr --parsable2 show reservation start=now-1hour"
    " format=Cluster,Name,NodeNames,Flags,Start,End",
    "qos": "sacctmgr --parsable2 show qos",
    "accounts": f"sacctmgr --parsable2 show assoc format={ASSOCIATION_COLUMNS}",
    "sdiag": "sdiag",
}
JSONS = {
    "sacct": f"{SACCT} --json",
    "sacct_x": f"{SACCT} --allocations --json",
    "squeue": "squeue --all --states=all --json",
    "nodes": "scontrol --all --details --json show node",
    "sinfo": "sinfo --all --json",
    "partitions": "scontrol --all --json show partition",
    "reservations": "scontrol --json show reservation",
    "qos": "sacctmgr --json show qos",
    "accounts": "sacctmgr --json show assoc",
}
"""What is read, by the name of its file; a version that has no JSON of one leaves that out. What
`scontrol show job` prints is what `squeue` does."""

RULES = (
    """
add qos peruser MaxTRESPerUser=gres/gpu=1
modify user root set qos+=peruser
add qos every Priority=7 Preempt=normal,peruser GrpTRES=gres/gpu=11,mem=2048,node=12 \
GrpTRESMins=gres/gpu=13 GrpTRESRunMins=gres/gpu=14 GrpJobs=15 GrpSubmit=16 GrpWall=17 \
MaxTRES=gres/gpu=18 MaxTRESPerNode=gres/gpu=19 MaxTRESPerUser=gres/gpu=20 \
MaxTRESPerAccount=gres/gpu=21 MaxJobsPerUser=22 MaxSubmitJobsPerUser=23 MaxJobsPerAccount=24 \
MaxSubmitJobsPerAccount=25 MaxWall=26 MinTRES=gres/gpu=27,cpu=28
""",
    """
add account every cluster=lab parent=small fairshare=29 GrpTRES=gres/gpu=30,mem=3072 \
GrpTRESMins=gres/gpu=31 GrpTRESRunMins=gres/gpu=32 GrpJobs=33 GrpSubmit=34 GrpWall=35 \
MaxTRES=gres/gpu=36 MaxTRESPerNode=gres/gpu=37 MaxJobs=38 MaxSubmit=39 MaxWall=40 \
qos=normal,every
add user root account=every partition=parts fairshare=parent
""",
)
"""Every limit that is read, each at a value of its own; an account may have QOS that are there."""
NEWER = """
add qos runs MaxTRESRunMinsPerUser=gres/gpu=1
modify qos every set MaxTRESRunMinsPerUser=gres/gpu=41 MaxTRESRunMinsPerAccount=gres/gpu=42
modify user root set qos+=runs
"""
"""Limits that 22.05 does not have, and who waits for one of them."""
RUNS = Told("runs", "-p parts --qos=runs --gres=gpu:1g.10gb:1", state=WAITS,
            reason="MaxGRESRunMinsPerUser")  # fmt: skip
OLDER = ("v0.0.40", "v0.0.41")
"""Forms of JSON that 24.11 prints too: those of 23.11 and of 24.05."""
BURNS = "srun -n1 --acctg-freq=task=1 sh -c 'i=0; while [ $i -lt 400000 ]; do i=$((i+1)); done'"
GROWS = "srun -n1 --acctg-freq=task=1 sh -c 'head -c 60000000 /dev/zero | (sleep 3; wc -c)'"
SLICE = "-p parts --gres=gpu:1g.10gb:1"
BEFORE = (
    Told("lost", "-w n4 --no-requeue --gres=gpu:h100:2"),
    Told("moved", "-w n4 --requeue --gres=gpu:h100:1"),
)
"""Their node goes down under them."""
AFTER = (
    Told("worked", f"{SLICE} --mem=1G", f"{BURNS}\n{GROWS}", state="COMPLETED"),
    Told("odd|name", f"{SLICE} --constraint=parts", state="RUNNING"),
    Told("either", "--gres=gpu:1 --constraint=rack0|rack1 --hold", state=WAITS),
    Told("slices", "-p parts --gres=gpu:1g.10gb:2", state="RUNNING"),
    Told("shards", "-p parts --gres=shard:2", state="RUNNING"),
    Told("nogpu", "-p parts -n 3", state="RUNNING"),
    Told("licensed", f"{SLICE} -L matlab:1", state="RUNNING"),
    Told("unlicensed", f"{SLICE} -L matlab:1", state=WAITS, reason="Licenses"),
    Told("toomuch", "-p parts --qos=peruser --gres=gpu:1g.10gb:2", state=WAITS,
         reason="QOSMaxGRESPerUser"),
    Told("pertask", "-w n3 -n 2 --gpus-per-task=h100:1", state="RUNNING"),
    Told("askspertask", "-n 2 --gpus-per-task=1 --hold", state=WAITS),
    Told("askspernode", "-N 2 --gpus-per-node=h100:3 --hold", state=WAITS),
    Told("asksinall", "--gpus=5 --hold", state=WAITS),
    Told("alone", "--exclusive --gpus=1 --hold", state=WAITS),
    Told("two partitions", "-p gpu,parts --gpus=1 --hold", state=WAITS),
    Told("members", "-p parts --gres=gpu:1g.10gb:1 --array=3,5", "true", state="COMPLETED"),
)  # fmt: skip


def main() -> None:
    """Record into the folder that is given."""
    if reason := cluster.missing():
        sys.exit(f"cannot start a real Slurm: {reason}")
    if len(sys.argv) != 2:
        sys.exit("usage: python -m tests.rigs.slurm.record FOLDER")
    into = Path(sys.argv[1])
    with (
        tempfile.TemporaryDirectory(prefix="tidemill-", dir=cluster.quick_folder()) as folder,
        cluster.running(Path(folder), nodes=5, has_parts=True) as rig,
    ):
        play(rig)
        into.mkdir(parents=True, exist_ok=True)
        record(rig, into)


def play(rig: Cluster) -> None:
    """The story, with what it lacks; returns when the accounting has all of it."""
    is_newer = _is_newer(rig)
    for rules in (*RULES, NEWER) if is_newer else RULES:
        rig.tell("sacctmgr", rules, "-i", "-Q")
    ids = {job.name: _submit(rig, job) for job in BEFORE}
    rig.wait_for("they run", lambda: set(_states(rig, *ids.values())) == {"RUNNING"})
    rig.run("scontrol", "update", "nodename=n4", "state=down", "reason=fell off the bus")
    rig.wait_for("one is lost", lambda: _states(rig, ids["lost"]) == ["NODE_FAIL"])
    rig.run("scontrol", "hold", str(ids["moved"]))
    with suppress(RigError):  # it may have come back by itself
        rig.run("scontrol", "update", "nodename=n4", "state=resume")
    rig.wait_for("it is back", lambda: "idle" in rig.run("sinfo", "-h", "-n", "n4", "-o", "%T"))
    ids = story.play(rig)
    after = (*AFTER, RUNS) if is_newer else AFTER
    late = {job.name: _submit(rig, job) for job in after}
    ends = {"overtime": "TIMEOUT", **{job.name: job.state for job in after}}
    rig.wait_for("all is as it shall stay", lambda: all(
        set(_states(rig, {**ids, **late}[name])) == {state} for name, state in ends.items()
    ), timeout_s=120)  # fmt: skip
    rig.wait_for("the accounting has it", lambda: _accounted(rig) >= {
        *("COMPLETED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "REQUEUED", "SUSPENDED"),
    })  # fmt: skip


def _is_newer(rig: Cluster) -> bool:
    return int(rig.run("sinfo", "-V").split()[-1].partition(".")[0]) >= 24


def _submit(rig: Cluster, job: Told) -> int:
    return int(rig.run(
        "sbatch", "--parsable", "-o", "/dev/null", "-D", "/", "-J", job.name, "--mem=1G",
        "-t", "30", "-A", "research", *shlex.split(job.options), "--wrap", job.does,
    ))  # fmt: skip


def _states(rig: Cluster, *jobs: int) -> list[str]:
    numbers = ",".join(map(str, jobs))
    return rig.run("squeue", "-h", "-t", "all", "-j", numbers, "-o", "%T").split()


def _accounted(rig: Cluster) -> set[str]:
    return set(rig.run("sacct", "-n", "-X", "-D", "-P", "-a", "-S", "now-1hour", "-o",
                       "state").split())  # fmt: skip


def record(rig: Cluster, into: Path) -> None:
    """What every command prints now, each by itself."""
    for name, line in TEXTS.items():
        (into / f"{name}.txt").write_text(_cleaned(rig, rig.run(*shlex.split(line))))
    lines = dict(JSONS)
    for form in OLDER if _is_newer(rig) else ():
        lines |= {f"{name}.{form}": line.replace("--json", f"--json={form}")
                  for name, line in JSONS.items()}  # fmt: skip
    for name, line in lines.items():
        try:
            printed = rig.run(*shlex.split(line))
            document = json.loads(_cleaned(rig, printed))
        except (RigError, json.JSONDecodeError) as error:
            print(f"{line}: {str(error)[:200]}", file=sys.stderr)
            continue
        # Most of it says nothing: packed, it is a thirtieth.
        packed = gzip.compress(_lines(document).encode(), mtime=0)
        (into / f"{name}.json.gz").write_bytes(packed)


def _cleaned(rig: Cluster, text: str) -> str:
    """Without the names of this machine."""
    host = socket.gethostname().partition(".")[0]
    text = text.replace(str(rig.folder), "/var/lib/slurm")
    text = re.sub(rf"\b{re.escape(host)}\b", "login", text)
    text = re.sub(r"Linux \d[^\n\"]*?(?= \w+=|\"|\n|$)", "Linux 6.1", text)
    return re.sub(r"\b\d+\.\d+\.\d+-[\w.-]*\b(?= \()", "6.1", text)


def _lines(document: dict[str, Any]) -> str:
    """A record per line, so that differences can be read."""
    parts = []
    for key, value in document.items():
        if isinstance(value, list) and value:
            records = ",\n".join(json.dumps(one, separators=(",", ":")) for one in value)
            parts.append(f"{json.dumps(key)}:[\n{records}\n]")
        else:
            parts.append(f"{json.dumps(key)}:{json.dumps(value, separators=(',', ':'))}")
    return "{" + ",\n".join(parts) + "}\n"


if __name__ == "__main__":
    main()
