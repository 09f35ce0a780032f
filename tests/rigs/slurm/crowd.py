"""Many short jobs of several users and accounts on the rig, and what people do to some of them.

Failing, requeued, preempted, held and released, cancelled while they run and while they wait; a
node is drained and comes back, another goes down under its work.
"""

from collections.abc import Callable, Collection
from contextlib import suppress

from tests.rigs.slurm.cluster import Cluster, RigError

LATER = "BeginTime"
"""Why a requeued job waits: Slurm lets two minutes pass before it may run again."""


def play(
    rig: Cluster, jobs: int, between: Callable[[], None], staying: Collection[str] = ()
) -> None:
    """Let about so many jobs run; ``between``: called some times while they do.

    ``staying``: names of others that need not end.
    """
    rig.run("sacctmgr", "-i", "add", "user", "daemon", "account=small")
    one = {
        name: submit(rig, name, *options)
        for name, options in {
            "again": ("-w", "n2", "--gres=gpu:h100:1", "--wrap", "sleep 60"),
            "victim": ("-w", "n1", "--gres=gpu:h100:8", "--wrap", "sleep 60"),
            "lost": ("-w", "n3", "--gres=gpu:h100:2", "--wrap", "sleep 60"),
            "stopped": ("-w", "n2", "--gres=gpu:h100:1", "--wrap", "sleep 60"),
            "held": ("--hold", "--gres=gpu:h100:1", "--wrap", "sleep 1"),
            "dropped": ("--hold", "--gres=gpu:h100:2", "--wrap", "sleep 1"),
        }.items()
    }
    fifth = max(1, jobs // 5)
    submit(rig, "short", f"--array=1-{2 * fifth}", "--gres=gpu:h100:1", "--wrap", "sleep 1")
    submit(rig, "wrong", f"--array=1-{fifth}", "--gres=gpu:h100:2", "--wrap", "sleep 1; exit 3")
    submit(rig, "wide", f"--array=1-{fifth}", "--uid=nobody", "-N2", "--gres=gpu:h100:2",
           "--wrap", "sleep 2")  # fmt: skip
    submit(rig, "small", f"--array=1-{jobs - 4 * fifth}", "-A", "small", "--uid=daemon",
           "--gres=gpu:h100:1", "--wrap", "sleep 1")  # fmt: skip
    rig.wait_for("the long ones run", lambda: running(rig) >= {"again", "victim", "lost"}, 60)
    between()
    rig.run("scontrol", "update", "nodename=n4", "state=drain", "reason=looks odd")
    rig.run("scontrol", "requeue", str(one["again"]))
    submit(rig, "urgent", "-w", "n1", "--gres=gpu:h100:8", "--qos=high", "--wrap", "sleep 1")
    rig.run("scancel", str(one["dropped"]))
    between()
    rig.wait_for("it was preempted", lambda: "victim" not in running(rig), 60)
    rig.run("scancel", str(one["stopped"]))
    rig.run("scontrol", "update", "nodename=n3", "state=down", "reason=fell off the bus")
    rig.run("scontrol", "release", str(one["held"]))
    between()
    for name in ("n3", "n4"):
        with suppress(RigError):  # it may have come back by itself
            rig.run("scontrol", "update", f"nodename={name}", "state=resume")
    rig.wait_for("all others are through", lambda: not left(rig, staying), 120)


def submit(rig: Cluster, name: str, *options: str) -> int:
    """Submit a job or an array; its id."""
    account = () if "-A" in options else ("-A", "research")
    common = ("-o", "/dev/null", "-D", "/", "-J", name, "--mem=1G", "-t", "30")
    return int(rig.run("sbatch", "--parsable", *common, *account, *options))


def running(rig: Cluster) -> set[str]:
    """The names of jobs that run."""
    return set(rig.run("squeue", "-h", "-t", "R", "-o", "%j").split())


def left(rig: Cluster, staying: Collection[str] = ()) -> list[str]:
    """What still runs, ends, or waits for GPUs, but for some."""
    lines = rig.run("squeue", "-h", "-r", "-o", "%j %T %r").splitlines()
    others = [line for line in lines if line.split()[0] not in staying]
    return [line for line in others if not line.endswith(f"PENDING {LATER}")]
