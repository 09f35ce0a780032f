"""Jobs of every fate on the rig: what is submitted, done to them, and when the story stands still.

One row per job; ``expected`` is written by hand, from what Slurm's manual says must happen.
"""

from dataclasses import dataclass

from tests.rigs.slurm.cluster import Cluster

DRAINED_BECAUSE = "ECC errors on GPU 3"


@dataclass(frozen=True)
class Told:
    """A job of the story: how it is submitted, and what squeue must say of it in the end."""

    name: str
    options: str
    does: str = "sleep 1700"
    state: str = "RUNNING"
    reason: str = "None"
    gpus: int = 1
    layer: int | None = None


WAITS = "PENDING"
STORY = (
    Told("overtime", "-w n2 --gres=gpu:1", state="RUNNING or TIMEOUT"),
    Told("victim", "-w n1 --gres=gpu:h100:8", state=WAITS, reason="BeginTime", gpus=8, layer=4),
    Told("gang", "-N2 -w n[2-3] --gres=gpu:h100:2", "srun sleep 1700", gpus=4),
    Told("failing", "-w n2 --gpus=2", "exit 3", state="FAILED", reason="NonZeroExitCode", gpus=2),
    Told("done", "-w n2 --gres=gpu:2", "true", state="COMPLETED", gpus=2),
    Told("again", "-w n2 --gres=gpu:1", state=WAITS, reason="BeginTime", layer=4),
    Told("cancelled", "-w n2 --gres=gpu:1", state="CANCELLED"),
    Told("asleep", "-w n3 --gres=gpu:1", state="SUSPENDED"),
    Told("array", "-w n2 --gres=gpu:1 --array=1-4%2", state="RUNNING or PENDING"),
    Told("held", "--hold --gres=gpu:1", state=WAITS, reason="JobHeldUser", layer=4),
    Told("later", "--begin=now+1hour --gres=gpu:1", state=WAITS, reason="BeginTime", layer=4),
    Told("limited", "-A small -w n3 --gpus=2", state=WAITS, reason="AssocGrpGRES", gpus=2, layer=3),
    Told("drained", "-w n4 --gres=gpu:8", state=WAITS, reason="ReqNodeNotAvail", gpus=8, layer=2),
    Told("reserved", "--reservation=maint", state=WAITS, reason="Reservation", gpus=0, layer=1),
    Told("huge", "-N4 --gres=gpu:8", state=WAITS, reason="PartitionNodeLimit", gpus=32, layer=4),
    Told("urgent", "-w n1 --gres=gpu:8 --qos=high", gpus=8),
    Told("starved", "-N1 --gres=gpu:8", state=WAITS, reason="Resources", gpus=8, layer=3),
    Told("behind", "-N1 --gres=gpu:8", state=WAITS, reason="Priority", gpus=8, layer=3),
    Told("dependent", "--gres=gpu:1 -d afterok:{gang}", state=WAITS, reason="Dependency", layer=4),
)
"""The order is that of submission: the first starts its time limit, ``urgent`` preempts."""

EARLY = ("overtime", "victim", "gang", "failing", "done", "again", "cancelled", "asleep", "array")
"""These start before anything is done to them."""


def play(rig: Cluster) -> dict[str, int]:
    """Submit everything, do to the jobs what people do, wait until it stands; id of each job."""
    drain = ("state=drain", f"reason={DRAINED_BECAUSE}")
    rig.run("scontrol", "update", "nodename=n4", *drain)
    window = ("starttime=now+1hour", "duration=2:00:00", "nodes=n3", "user=root", "flags=maint")
    rig.run("scontrol", "create", "reservation", "reservationname=maint", *window)
    ids = dict[str, int]()
    for job in STORY[: len(EARLY)]:
        ids[job.name] = submit(rig, job, ids)
    rig.wait_for("the early jobs have begun", lambda: not _pending(rig, EARLY))
    rig.run("scontrol", "requeue", str(ids["again"]))
    rig.run("scancel", str(ids["cancelled"]))
    rig.run("scontrol", "suspend", str(ids["asleep"]))
    rig.run("scontrol", "update", f"jobid={ids['overtime']}", "endtime=now+3seconds")
    ids["nobody"] = submit(rig, Told("nobody", "--uid=nobody -w n3 --gres=gpu:1 -A research"), ids)
    ids["het"] = _submit_het(rig)
    for job in STORY[len(EARLY) :]:
        ids[job.name] = submit(rig, job, ids)
    rig.wait_for("the story stands still", lambda: _stands(rig))
    for name in ("victim", "again"):  # Slurm puts requeued jobs off for two minutes only
        rig.run("scontrol", "update", f"jobid={ids[name]}", "starttime=now+1hour")
    rig.wait_for("they are put off for longer", lambda: _stands(rig))
    return ids


def submit(rig: Cluster, job: Told, ids: dict[str, int]) -> int:
    """Submit one job; its id."""
    account = () if "-A " in job.options else ("-A", "research")
    found = rig.run(
        "sbatch", "--parsable", "-o", "/dev/null", "-D", "/", "-J", job.name, "--mem=1G",
        "-t", "30", *account, *job.options.format(**ids).split(), "--wrap", job.does,
    )  # fmt: skip
    return int(found)


def _submit_het(rig: Cluster) -> int:
    common = ("--mem=1G", "-t", "30", "-A", "research")
    found = rig.run(
        "sbatch", "--parsable", "-o", "/dev/null", "-D", "/", "-J", "het",
        *common, "-w", "n3", "--gres=gpu:1", ":", *common, "-w", "n2", "--gres=gpu:2",
        "--wrap", "sleep 1700",
    )  # fmt: skip
    return int(found)


def _queue(rig: Cluster) -> dict[str, str]:
    """Name to state, and the reason of those that pend; by hand."""
    lines = rig.run("squeue", "-h", "-t", "all", "-o", "%j %T %r").splitlines()
    return {name: f"{state} {reason}" for name, state, reason in (x.split(" ", 2) for x in lines)}


def _pending(rig: Cluster, names: tuple[str, ...]) -> bool:
    lines = rig.run("squeue", "-h", "-t", "PD,CF", "-o", "%j %r").splitlines()
    return any(line.split()[0] in names and "Array" not in line for line in lines)


def _stands(rig: Cluster) -> bool:
    found = _queue(rig)
    for job in STORY:
        state = found.get(job.name, "")
        if job.state == "PENDING" and not state.startswith(f"PENDING {job.reason}"):
            return False
        if job.state != "PENDING" and state.split(" ")[0] not in job.state:
            return False
    return all(found.get(name, "").startswith("RUNNING") for name in ("nobody", "het"))
