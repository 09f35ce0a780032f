"""Work that comes and goes on a real cluster while things break, and what has to be so at rest.

A round puts gangs and pods into the cluster, for our scheduler and for kube-scheduler on the same
nodes, breaks some things meanwhile, mends them, and waits for rest. Then nothing may be
over-committed or in part, no pod may be lost or wait, and the journal has to tell what the cluster
shows. All work has owners who make lost pods again, and fits twice over, so that rest comes.
"""

import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from tests.rigs.kubernetes import off_clock
from tests.rigs.kubernetes.cluster import Cluster, RigError
from tests.rigs.kubernetes.interposer import Interposer
from tests.rigs.kubernetes.scheduled import OURS, Process, in_part, live, wrong
from tests.rigs.kubernetes.wanted import container, gang_notes, node, replica_set

Object = dict[str, Any]
NODES, GPUS_EACH = 10, 8
MOST_WANTED = NODES * GPUS_EACH // 2
"""GPUs that are asked for at once. Pods take one or two: half of the fleet always has room."""
SETTLE_S = 120.0
SETS = "/apis/apps/v1/namespaces/ml/replicasets"
PODS = "/api/v1/namespaces/ml/pods"
MERGE = "application/merge-patch+json"
AT_ONCE = {"gracePeriodSeconds": 0, "propagationPolicy": "Background"}


MEMORY_EACH = "128Gi"
"""Of each pod: eight fill a node, also one that has more than eight GPUs for a while."""


class Work(NamedTuple):
    """Pods that somebody keeps alive: a gang of ours, single pods of ours, or pods of others."""

    name: str
    pods: int
    each: int
    is_ours: bool
    is_gang: bool

    @property
    def wanted(self) -> Object:
        """What makes them."""
        notes = gang_notes(self.name, self.pods) if self.is_gang else None
        spec: Object = {"schedulerName": OURS} if self.is_ours else {}
        spec["containers"] = [container(self.each, memory=MEMORY_EACH)]
        return replica_set(self.name, self.pods, self.each, notes, **spec)


class Story:
    """One cluster, one scheduler of ours, and what is done to them."""

    def __init__(self, rig: Cluster, folder: Path, way: Interposer, seed: int) -> None:
        self.rig, self.way, self.seed = rig, way, seed
        self.chance = random.Random(seed)
        self.off = folder / "clock-off"
        off_clock.write(self.off, 0)
        self.ours = Process(rig, folder, port=way.port, off=self.off)
        self.work: dict[str, Work] = {}
        self.done: Counter[str] = Counter()
        self._made = 0
        self._tick = threading.Event()  # never set: the world outside has no event to wait for
        self._cured: list[Callable[[], None]] = []

    # A round ------------------------------------------------------------------------------------

    def play(self, faults: "Faults", rounds: int, per_round: int) -> None:
        """So many rounds; ``RigError`` if anything is not as it must be at rest."""
        names = list(faults)
        turns = [name for _ in range(-(-rounds * per_round // len(names))) for name in names]
        self.chance.shuffle(turns)
        self.rig.add_nodes(*(node(f"n{i}", rack=f"r{i // 4}") for i in range(NODES)))
        self.ours.start()
        self.ours.wait_for("began")
        for turn in range(rounds):
            begun = time.monotonic()
            some = turns[turn * per_round : (turn + 1) * per_round]
            self.begin_work()
            for name in some:
                self._wait(0.3)
                faults[name](self)
                self.done[name] += 1
                if self.chance.random() < 0.5:
                    self.begin_work()
            self.mend()
            self.settle(f"round {turn}: {', '.join(some)}")
            print(f"seed {self.seed} round {turn} ({', '.join(some)}): {len(self.work)} sets of"
                  f" pods at rest after {time.monotonic() - begun:.0f} s",
                  file=sys.stderr, flush=True)  # fmt: skip
            self.end_work()
        if self.ours.stop() != 0:
            raise RigError(f"the scheduler failed:\n{self._said()}")

    def begin_work(self) -> None:
        """Put work into the cluster, as much as has room."""
        for _ in range(self.chance.randint(1, 4)):
            is_gang = self.chance.random() < 0.6
            pods = self.chance.randint(2, 16) if is_gang else self.chance.randint(1, 4)
            is_ours = is_gang or self.chance.random() < 0.4
            self.add(pods, self.chance.choice((1, 1, 2)), is_ours=is_ours, is_gang=is_gang)

    def add(self, pods: int, each: int, *, is_ours: bool, is_gang: bool) -> None:
        """Put some pods into the cluster, if they have room."""
        used = sum(one.pods * one.each for one in self.work.values())
        if used + pods * each > MOST_WANTED:
            return
        self._made += 1
        one = Work(f"w{self._made}", pods, each, is_ours, is_gang)
        self.work[one.name] = one
        self.insist("POST", SETS, one.wanted)

    def end_work(self) -> None:
        """Remove about half of the work; some of it, while it is being bound."""
        for name in sorted(self.work):
            if self.chance.random() < 0.5:
                del self.work[name]
                self.insist("DELETE", f"{SETS}/{name}", AT_ONCE)

    def mend(self) -> None:
        """Undo every fault that lasts."""
        while self._cured:
            self._cured.pop()()
        if self.ours.process is None or self.ours.process.poll() is not None:
            raise RigError(f"the scheduler ended by itself:\n{self._said()}")

    def settle(self, where: str) -> None:
        """Wait for rest, and look at everything."""
        try:
            self._wait_until("every pod is there and bound", self._is_complete)
            self._wait_until("all is right", self._is_right)
        except RigError as error:
            found = "; ".join((*self._amiss(), *wrong(self.rig, self.ours.journal)))
            raise RigError(
                f"seed {self.seed}, {where}: {error}; found: {found}\n{self._said()}"
            ) from error
        if self.ours.process is None or self.ours.process.poll() is not None:
            raise RigError(f"the scheduler ended by itself:\n{self._said()}")

    def _wait_until(self, what: str, is_so: Callable[[], bool]) -> None:
        """Looking costs more than a moment here: time is measured, not counted."""
        begun = time.monotonic()
        while not is_so():
            if time.monotonic() - begun > SETTLE_S:
                raise RigError(f"not within {SETTLE_S:.0f} s: {what}")
            self._tick.wait(0.2)

    def _is_complete(self) -> bool:
        with suppress(OSError, RigError):
            return not self._amiss()
        return False

    def _is_right(self) -> bool:
        return not wrong(self.rig, self.ours.journal) and not self._amiss()

    def _amiss(self) -> list[str]:
        """Pods that are lost, too many, or wait."""
        there, bound = Counter[str](), Counter[str]()
        for pod in live(self.rig):
            name = pod["metadata"]["labels"].get("set", "?")
            there[name] += 1
            bound[name] += bool(pod["spec"].get("nodeName")) and (
                "deletionTimestamp" not in pod["metadata"]
            )
        names = sorted({*self.work, *there})
        wanted = {name: self.work[name].pods if name in self.work else 0 for name in names}
        return [
            f"{name} has {there[name]} pods, {bound[name]} of them bound, and wants {wanted[name]}"
            for name in names
            if not there[name] == bound[name] == wanted[name]
        ]

    # What faults are made of --------------------------------------------------------------------

    def wait_for_half_a_gang(self) -> bool:
        """Until some gang is bound in part, or for a while; whether one is."""
        for _ in range(60):
            with suppress(OSError, RigError):
                if in_part(self.rig):
                    return True
            self._tick.wait(0.01)
        return False

    def restart(self) -> None:
        """Start the scheduler that was killed."""
        self.ours.said.unlink(missing_ok=True)
        self.ours.start()
        self.ours.wait_for("began")

    def patch(self, path: str, change: Object) -> None:
        """Change an object, however often that has to be tried."""
        self.insist("PATCH", path, change, kind=MERGE)

    def any_node(self) -> str:
        """The name of one."""
        return f"n{self.chance.randrange(NODES)}"

    def later(self, cure: Callable[[], None]) -> None:
        """How to mend at the end of the round what was broken now."""
        self._cured.append(cure)

    def for_a_while(self, longest_s: float) -> None:
        """Let what was broken take effect, for a random time."""
        self._tick.wait(self.chance.uniform(0.1 * longest_s, longest_s))

    def _wait(self, longest_s: float) -> None:
        self._tick.wait(self.chance.uniform(0, longest_s))

    def insist(self, method: str, path: str, body: Object, *, kind: str = "") -> None:
        """As an owner of work would: again, until it is done. What is done or gone already, is."""
        for _ in range(200):
            with suppress(OSError):
                kinds = {"kind": kind} if kind else {}
                status, _ = self.rig.try_to(method, path, body, **kinds)
                if status < 300 or status in (404, 409):
                    return
            self._tick.wait(0.1)
        raise RigError(f"{method} {path} was not taken in 20 s")

    def _said(self) -> str:
        return self.ours.said.read_text()[-3000:] if self.ours.said.exists() else ""


Faults = Mapping[str, Callable[[Story], None]]
"""By name: how to break something. What lasts says how it is mended (``later``)."""
