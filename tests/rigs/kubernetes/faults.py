"""Faults of a cluster, and of whoever schedules it, mixed by a seed: `python -m … --seed SEED`.

What happens is decided by the seed; when it happens, by the machine. A failure prints the command
that does the same again, and where the journal and the log of the scheduler were kept.
"""

import argparse
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from tests.rigs.kubernetes import off_clock
from tests.rigs.kubernetes.interposer import Interposer, Judge, Verdict, pass_all
from tests.rigs.kubernetes.scheduled import live, ready_rig
from tests.rigs.kubernetes.story import (
    AT_ONCE,
    GPUS_EACH,
    MERGE,
    PODS,
    Object,
    Story,
)
from tests.rigs.kubernetes.wanted import GPU, node
from tests.rigs.slurm.cluster import quick_folder

MOST_OFF_S = 1800
"""By so much the scheduler's clock is set off: half an hour."""


def kill(story: Story) -> None:
    """`kill -9` of the scheduler, in the middle of a gang where one comes to be bound."""
    story.done["killed in a gang"] += story.wait_for_half_a_gang()
    story.ours.kill()
    if story.chance.random() < 0.3:
        story.begin_work()
    story.restart()


def restart_api(story: Story) -> None:
    """The API server is killed, and starts again."""
    story.rig.stop_api()
    story.for_a_while(1.0)
    story.rig.start_api()
    story.rig.kill("kube-controller-manager")  # it may wait five minutes for what it has missed
    story.rig.start_controllers()


def pause_etcd(story: Story) -> None:
    """etcd stands still; the API server waits for it."""
    etcd = story.rig.processes["etcd"]
    etcd.send_signal(signal.SIGSTOP)
    try:
        story.for_a_while(5.0)
    finally:
        etcd.send_signal(signal.SIGCONT)


def drop_watches(story: Story) -> None:
    """Every connection of the scheduler ends; half of the time it cannot come back for a while."""
    if story.chance.random() < 0.5:
        story.way.drop()
        return
    story.way.cut()
    story.for_a_while(1.5)
    if story.chance.random() < 0.5:
        story.rig.compact()  # what it missed is forgotten: it has to list again
    story.way.mend()


def storm(story: Story, verdicts: tuple[Verdict, ...]) -> None:
    """For a while most binds and evictions are refused, and some of all else that is asked; or the
    answers to what was done are lost.
    """
    chance = random.Random(story.chance.random())
    story.way.judge = _refusing(chance, verdicts)
    story.begin_work()
    story.for_a_while(3.0)
    story.later(lambda: setattr(story.way, "judge", pass_all))


def _refusing(chance: random.Random, verdicts: tuple[Verdict, ...]) -> Judge:
    def judge(method: str, path: str) -> Verdict:
        is_bind = method == "POST" and path.endswith(("/binding", "/eviction"))
        share = 0.7 if is_bind else 0.3 if method != "GET" or Verdict.BUSY in verdicts else 0.0
        return chance.choice(verdicts) if chance.random() < share else Verdict.PASS

    return judge


def flap_nodes(story: Story) -> None:
    """Some nodes are not Ready, or cordoned, and are again; one may go and come back."""
    for name in {story.any_node() for _ in range(3)}:
        path, how = f"/api/v1/nodes/{name}", story.chance.choice(("ready", "cordon", "gone"))
        if how == "cordon":
            story.patch(path, {"spec": {"unschedulable": True}})
            story.later(partial(story.patch, path, {"spec": {"unschedulable": False}}))
        elif how == "ready":
            _set_ready(story, name, "False")
            story.later(partial(_set_ready, story, name, "True"))
        else:
            lose_node(story, name)
    story.for_a_while(1.0)


def _set_ready(story: Story, name: str, status: str) -> None:
    """As a kubelet says it; the cluster's own controller taints the node for it."""
    told = {"type": "Ready", "status": status, "reason": "KubeletReady", "message": "said so"}
    story.rig.wait_for("the node says so", lambda: _is_told(story, name, told))


def _is_told(story: Story, name: str, told: Object) -> bool:
    with suppress(OSError):
        status, one = story.rig.try_to("GET", f"/api/v1/nodes/{name}")
        if status == 404:
            return True
        kept = [c for c in one["status"].get("conditions", ()) if c["type"] != "Ready"]
        body = {"status": {"conditions": [*kept, told]}}
        path = f"/api/v1/nodes/{name}/status"
        return story.rig.try_to("PATCH", path, body, kind=MERGE)[0] < 300
    return False


def lose_node(story: Story, name: str) -> None:
    """A node is removed with all its pods, as the cluster's collector does; it comes back later."""
    story.insist("DELETE", f"/api/v1/nodes/{name}", AT_ONCE)
    for pod in live(story.rig):
        if pod["spec"].get("nodeName") == name:
            path = f"{PODS}/{pod['metadata']['name']}"
            story.insist("DELETE", path, {"gracePeriodSeconds": 0})
    story.later(lambda: story.rig.add_nodes(node(name, rack="r0")))


def set_clock(story: Story) -> None:
    """The scheduler's clock is set off by minutes, while it runs; or it starts with one."""
    off_clock.write(story.off, story.chance.uniform(-MOST_OFF_S, MOST_OFF_S))
    if story.chance.random() < 0.3:
        story.ours.kill()
        story.restart()
    story.begin_work()


def delete_pods(story: Story) -> None:
    """Pods are deleted while they are bound."""
    story.begin_work()
    story.wait_for_half_a_gang()
    pods = sorted(live(story.rig), key=lambda pod: str(pod["metadata"]["name"]))
    some = story.chance.sample(pods, min(len(pods), 3))
    for pod in some:
        path = f"{PODS}/{pod['metadata']['name']}"
        story.insist("DELETE", path, {"gracePeriodSeconds": 0})
    if story.chance.random() < 0.3:
        story.end_work()


def resize_nodes(story: Story) -> None:
    """Some nodes have other numbers of GPUs for a while, whatever sits on them."""
    for name in {story.any_node() for _ in range(2)}:
        _resize(story, name, story.chance.choice((4, 6, 12)))
        story.later(partial(_resize, story, name, GPUS_EACH))
    story.for_a_while(1.0)


def _resize(story: Story, name: str, gpus: int) -> None:
    labels = {"metadata": {"labels": {"nvidia.com/gpu.count": str(gpus)}}}
    story.patch(f"/api/v1/nodes/{name}", labels)
    amounts = {GPU: str(gpus)}
    told = {"status": {"capacity": amounts, "allocatable": amounts}}
    story.patch(f"/api/v1/nodes/{name}/status", told)


def race(story: Story) -> None:
    """kube-scheduler and ours are given work for the same nodes at the same moment."""
    for is_ours in (True, False) * 2:
        story.add(4, 2, is_ours=is_ours, is_gang=is_ours)


FAULTS: dict[str, Callable[[Story], None]] = {
    "kill": kill,
    "API server restarted": restart_api,
    "etcd paused": pause_etcd,
    "watches dropped": drop_watches,
    "409 storm": lambda story: storm(story, (Verdict.CONFLICT,)),
    "429 storm": lambda story: storm(story, (Verdict.BUSY, Verdict.UNWELL)),
    "answers lost": lambda story: storm(story, (Verdict.LOSE, Verdict.CONFLICT)),
    "nodes flap": flap_nodes,
    "clock set": set_clock,
    "pods deleted": delete_pods,
    "nodes resized": resize_nodes,
    "second scheduler": race,
}


def mixed(seed: int, rounds: int, per_round: int, only: Sequence[str] = ()) -> Counter[str]:
    """One story on a rig of its own; how often each fault was played."""
    begun, table = time.monotonic(), {name: FAULTS[name] for name in only or FAULTS}
    with (
        tempfile.TemporaryDirectory(prefix="tidemill-", dir=quick_folder()) as folder,
        ready_rig(Path(folder)) as rig,
        Interposer(rig) as way,
    ):
        story = Story(rig, Path(folder), way, seed)
        try:
            story.play(table, rounds, per_round)
        except BaseException:
            kept = Path(tempfile.mkdtemp(prefix=f"tidemill-seed-{seed}-"))
            for path in (Path(story.ours.journal), story.ours.said):
                if path.exists():
                    shutil.copy(path, kept)
            told = "".join(f" --only '{name}'" for name in only)
            print(f"replay: python -m tests.rigs.kubernetes.faults --seed {seed} --rounds {rounds}"
                  f" --per-round {per_round}{told}\nkept: {kept}", file=sys.stderr)  # fmt: skip
            raise
    took_s = time.monotonic() - begun
    print(f"seed {seed}: {rounds} rounds in {took_s:,.0f} s, all is right: {dict(story.done)};"
          f" requests {dict(way.verdicts)}", file=sys.stderr, flush=True)  # fmt: skip
    return story.done


def main() -> None:
    """Play stories as asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--stories", type=int, default=1, help="one for each seed from this on")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--per-round", type=int, default=4)
    parser.add_argument("--only", action="append", default=[], choices=FAULTS)
    asked = parser.parse_args()
    total = Counter[str]()
    for seed in range(asked.seed, asked.seed + asked.stories):
        total += mixed(seed, asked.rounds, asked.per_round, asked.only)
    print(f"all is right: {dict(total)}")


if __name__ == "__main__":
    main()
