"""Observers of real clusters, killed at random instants: `python -m tests.rigs.observers COUNT`.

A real Slurm and a real Kubernetes live on while jobs come and end, a Prometheus has figures of the
GPUs, and some jobs run a loop with `tidemill.track`. Three observers, each with a journal of its
own, are killed (`kill -9`) and started again, COUNT times each: of Slurm, of Kubernetes, and of a
`fleet.toml` that names all four. In the end each journal must be the one of a single answer of an
observer that was never killed: the same jobs with the same beginnings and ends, none twice, and
the same amount in every bucket of every job; and GPU-time as `sacct` and the pods say.
"""

import argparse
import json
import math
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from tests.conftest import ROOT
from tests.ledger.sums import amounts
from tests.rigs.kubernetes import cluster as kubernetes
from tests.rigs.kubernetes.wanted import gang, node, pod
from tests.rigs.prometheus import series, server
from tests.rigs.slurm import cluster as slurm
from tests.rigs.slurm import crowd
from tidemill import api
from tidemill.journal import open_journal
from tidemill.ledger.buckets import ALLOCATED
from tidemill.model import events as ev
from tidemill.model.measures import WHOLE_MILLI

OBSERVERS = ("slurm", "kubernetes", "fleet")
LATENESS_S = 15
"""Loops write what they did a moment later, and a machine with much to do later still."""
LONGEST_S = 2.0
"""After at most so long an observer is killed: about two answers."""
AFTER_TELLING = 0.7
"""The share of kills whose time begins when the observer has told something new."""
PATIENCE_S = 30
MOST_LEFT = 30
"""Jobs of a cluster that are not through; with more none is added: the end would be long in coming.
"""
MOST_RUNNING = 8
"""Pods; of more some are ended."""
STARTING = """
import json, os, signal, sys
import polars
from tidemill.cli import fleet_file, fleet_watch, main, observe, observers
from tidemill.live.kubernetes.watching import source
from tidemill.live.observing import measuring, observer, several
from tidemill.live.prometheus import fetching, joining
from tidemill.live.slurm import polling
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
for line in sys.stdin:
    asked = json.loads(line)
    if number := os.fork():
        print(number, flush=True)
        continue
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    log = os.open(asked["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.dup2(log, 1), os.dup2(log, 2)
    os.environ.clear(), os.environ.update(asked["environment"])
    sys.argv = ["tidemill", *asked["words"]]
    main.main()
    os._exit(0)
"""
"""Starts observers as children that have the modules already: a start costs a second otherwise."""
MEASURED_S = 7_200
PODS = "/api/v1/namespaces/ml/pods"
JOBS = "/apis/batch/v1/namespaces/ml/jobs"
LOOP = """
import sys, time
sys.path.insert(0, {source!r})
from tidemill import track
with track.job("loop", to="file:{folder}") as run:
    for step in range(20):
        with run.step(tokens=8):
            time.sleep(0.05)
        if step % 10 == 9:
            with run.checkpoint():
                time.sleep(0.1)
"""
"""What some jobs of Slurm run: a second of steps, and two checkpoints."""
LIVES = (ev.JobSubmitted, ev.PlacementSeen, ev.JobStarted, ev.JobFinished, ev.JobFailed,
         ev.JobCancelled)  # fmt: skip
"""Events that must be there once for each job, or each attempt of one."""


class Rigs(NamedTuple):
    """Where everything runs."""

    folder: Path
    slurm: slurm.Cluster | None
    kubernetes: kubernetes.Cluster | None
    prometheus: str
    begins: str
    """The moment at which all journals begin."""


class Story:
    """Jobs that come and end while observers die; what nobody has to watch is done at once."""

    def __init__(self, rigs: Rigs, chance: random.Random) -> None:
        self._rigs, self._chance, self._round = rigs, chance, 0

    def go_on(self) -> None:
        """Some more jobs begin, fail, are cancelled or end."""
        self._round += 1
        if self._rigs.slurm is not None:
            self._slurm(self._rigs.slurm)
        if self._rigs.kubernetes is not None:
            self._kubernetes(self._rigs.kubernetes)

    def finish(self) -> None:
        """Until nothing runs any more."""
        if self._rigs.slurm is not None:
            rig = self._rigs.slurm
            rig.wait_for("all jobs of Slurm are through", lambda: not crowd.left(rig), 600)
        if self._rigs.kubernetes is not None:
            pods = self._rigs.kubernetes
            pods.wait_for("all pods are through", lambda: self._end_all(pods), 600)

    def _end_all(self, rig: kubernetes.Cluster) -> bool:
        """End what runs, so that what waits may run; whether nothing is left."""
        phases = rig.phases("ml")
        for name, phase in phases.items():
            if phase == "Running":
                rig.annotate("ml", name, ends="Succeeded")
        are_over = (one["status"].get("conditions") for one in rig.items(JOBS))
        # a Job whose pod failed makes another one, later and later
        return all(are_over) and not {"Running", "Pending"} & {*phases.values()}

    def _slurm(self, rig: slurm.Cluster) -> None:
        chance, n = self._chance, self._round
        whole = ("--gres=gpu:h100:8",)
        if len(crowd.left(rig)) > MOST_LEFT:
            return
        if self._rigs.prometheus and n % 60 == 1:  # devices tell of whole minutes of one job
            crowd.submit(rig, f"long-{n}", *whole, "--wrap", "sleep 150")
        done = crowd.submit(rig, f"short-{n}", *whole, "--wrap", f"sleep {chance.choice((0, 1))}")
        if n % 3 == 0:
            crowd.submit(rig, f"wrong-{n}", "-A", "small", "--gres=gpu:h100:1", "--wrap", "exit 3")
        if n % 4 == 0:
            crowd.submit(rig, f"wide-{n}", "-N2", *whole, "--array=1-2", "--wrap", "sleep 1")
        if n % 5 == 0:
            rig.ok("scancel", str(done))
        if n % 7 == 0:
            loop = LOOP.format(source=str(ROOT / "src"), folder=self._rigs.folder / "track")
            (self._rigs.folder / "loop.py").write_text(loop)
            line = f"{sys.executable} {self._rigs.folder / 'loop.py'}"
            crowd.submit(rig, f"loop-{n}", *whole, "--wrap", line)

    def _kubernetes(self, rig: kubernetes.Cluster) -> None:
        """Pods and gangs come; of those that run, whichever end: gangs in part, some alone."""
        chance, n = self._chance, self._round
        phases = [*rig.phases("ml").values()]
        if phases.count("Pending") <= MOST_LEFT:
            rig.create(PODS, pod(f"p{n}", chance.choice((1, 2, 4))))
            if n % 6 == 0:
                rig.create(JOBS, gang(f"g{n}", 2, 4))
        runs = sorted(name for name, phase in rig.phases("ml").items() if phase == "Running")
        for name in chance.sample(runs, max(0, len(runs) - MOST_RUNNING)):
            rig.annotate("ml", name, ends=chance.choice(("Succeeded", "Succeeded", "Failed")))


class Starter:
    """A process that starts observers, one for all of them."""

    def __init__(self) -> None:
        told = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OPENBLAS_NUM_THREADS": "1"}
        self._process = subprocess.Popen(
            [sys.executable, "-c", STARTING], env=told, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip

    def start(self, words: Sequence[str], environment: dict[str, str], log: Path) -> int:
        """Start `tidemill` with these words; its process id."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        asked = {"words": words, "environment": environment, "log": str(log)}
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait(10)


class Killed:
    """One observer after the other, on one journal."""

    def __init__(self, name: str, rigs: Rigs, starter: Starter) -> None:
        self.name, self._rigs, self._starter = name, rigs, starter
        self.journal = rigs.folder / f"{name}.sqlite"
        self.kills, self.grew = 0, 0
        self._number: int | None = None
        self._delay_s, self._until_s, self._events = 0.0, math.inf, 0

    def go_on(self, chance: random.Random, most: int) -> None:
        """Kill it if its time has come, and start another one; until it was killed often enough."""
        now_s = time.monotonic()
        if self._number is None:
            if self.kills < most:
                self._number = self._start(self.journal)
                self._delay_s = chance.uniform(0, LONGEST_S)
                waits = chance.random() < AFTER_TELLING
                self._until_s = now_s + (PATIENCE_S if waits else self._delay_s)
            return
        if self._has_told():
            self._until_s = min(self._until_s, now_s + self._delay_s)
            self._delay_s = math.inf
        if now_s > self._until_s:
            assert _is_alive(self._number), f"it ended by itself: {self.said()}"
            os.kill(self._number, signal.SIGKILL)
            self._wait(10)
            self.kills += 1
            self.grew += self._delay_s == math.inf

    def stop(self) -> None:
        """Kill it for good."""
        if self._number is not None:
            os.kill(self._number, signal.SIGKILL)
            self._wait(10)

    def once(self, journal: Path) -> None:
        """One whole answer."""
        self._number = self._start(journal, "--once")
        self._wait(300)

    def said(self) -> str:
        """The end of what it printed."""
        return f"{self.name}: {self._log().read_text()[-2000:]}"

    def _log(self) -> Path:
        return self._rigs.folder / f"{self.name}.log"

    def _wait(self, patience_s: float) -> None:
        tick, until_s = threading.Event(), time.monotonic() + patience_s
        while self._number is not None and _is_alive(self._number):
            assert time.monotonic() < until_s, f"it does not end: {self.said()}"
            tick.wait(0.05)
        self._number = None

    def _has_told(self) -> bool:
        """Whether there are more events than when this was last so."""
        if not self.journal.exists():
            return False
        before, self._events = self._events, api.completeness_of(str(self.journal)).events
        return self._events > before

    def _start(self, journal: Path, *more: str) -> int:
        if self.name == "slurm":
            terms = ("--every", "1s", "--lateness", f"{LATENESS_S}s", "--since", self._rigs.begins)
            words = ["slurm", "-j", str(journal), "--usd-per-hour", "2.50", *terms]
        else:
            file = journal.with_suffix(".toml")
            file.write_text(_file(self.name, self._rigs, str(journal)))
            words = ["--config", str(file)]
        environment = dict(os.environ)
        environment |= self._rigs.slurm.environment if self._rigs.slurm else {}
        return self._starter.start(["observe", *words, *more], environment, self._log())


def _is_alive(number: int) -> bool:
    """Whether it runs; whoever started it has no use for how it ended."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{number}/status").read_text()
    except OSError:
        return False


def _file(name: str, rigs: Rigs, journal: str) -> str:
    """A fleet.toml with every source there is, or with Kubernetes alone."""
    lines = ["[fleet]", f'journal = "{journal}"', 'every = "1s"', f'lateness = "{LATENESS_S}s"',
             f'since = "{rigs.begins}"', "[prices]", "usd_per_hour = 2.50"]  # fmt: skip
    if rigs.kubernetes is not None:
        lines += ["[[kubernetes]]", 'name = "pods"', f'kubeconfig = "{rigs.kubernetes.kubeconfig}"']
    if name == "fleet":
        lines += ["[track]", f'folder = "{rigs.folder / "track"}"', "[[slurm]]", 'name = "hpc"']
        if rigs.prometheus:
            lines += ["[[prometheus]]", f'url = "{rigs.prometheus}"', 'resolution = "1m"']
    return "\n".join(lines) + "\n"


@contextmanager
def running(names: Sequence[str]) -> Iterator[Rigs]:
    """All that these observers watch."""
    with ExitStack() as stack:
        where = tempfile.TemporaryDirectory(prefix="tidemill-", dir=slurm.quick_folder())
        folder = Path(stack.enter_context(where))
        folder.chmod(0o755)
        (folder / "track").mkdir()
        hpc = pods = None
        measured = ""
        if {"slurm", "fleet"} & {*names}:
            hpc = stack.enter_context(slurm.running(folder / "slurm", 4))
        if {"kubernetes", "fleet"} & {*names}:
            pods = stack.enter_context(kubernetes.running(folder / "kubernetes"))
            pods.create("/api/v1/namespaces", {"metadata": {"name": "ml"}})
            pods.add_nodes(*(node(f"k{i}") for i in range(4)))
        if "fleet" in names and not server.missing():
            (folder / "prometheus").mkdir()
            told = series.lines(_activity())
            measured = stack.enter_context(server.running(folder / "prometheus", told))
        begins = datetime.fromtimestamp(int(time.time()), UTC).strftime("%Y-%m-%dT%H:%M:%S+00:00")
        yield Rigs(folder, hpc, pods, measured, begins)


def _activity() -> list[series.Recorded]:
    """How busy every GPU of Slurm's nodes is from now on: more and less, and all alike."""
    begins_s = int(time.time()) // 30 * 30 - 60 - series.BEGIN_S
    samples = [(float(begins_s + s), (s // 30 % 4) / 4) for s in range(0, MEASURED_S, 10)]
    return [
        series.Recorded("DCGM_FI_PROF_GR_ENGINE_ACTIVE", series.dcgm(f"n{n}", gpu), samples)
        for n in range(1, 5)
        for gpu in range(8)
    ]


def kill_often(
    names: Sequence[str], kills: int, seed: int, within_s: float = math.inf
) -> dict[str, str]:
    """So many kills of each; what was found, in words. Raises if a journal is not what it must be.

    Each observer is killed by its own chance, whatever the others do.
    """
    chance, tick = random.Random(seed), threading.Event()
    with running(names) as rigs:
        story = Story(rigs, chance)
        starter = Starter()
        observers = [Killed(name, rigs, starter) for name in names]
        until_s = time.monotonic() + within_s
        while any(one.kills < kills for one in observers) and time.monotonic() < until_s:
            story.go_on()
            for _ in range(10):
                for one in observers:
                    one.go_on(chance, kills)
                tick.wait(chance.uniform(0.05, 0.15))
            print({one.name: one.kills for one in observers}, file=sys.stderr, flush=True)
        story.finish()
        tick.wait(LATENESS_S + (61 if rigs.prometheus else 1))  # until all of it may be told
        for one in observers:
            one.stop()
        try:
            return {one.name: _checked(rigs, one) for one in observers}
        except AssertionError as error:
            kept = Path(tempfile.mkdtemp(prefix="tidemill-observers-"))
            for path in (*rigs.folder.glob("*.sqlite*"), *rigs.folder.glob("*.log")):
                shutil.copy(path, kept)
            raise AssertionError(f"{error}\njournals and logs are in {kept}") from error
        finally:
            starter.close()


def _checked(rigs: Rigs, observer: Killed) -> str:
    """Hold the journal against one that was told at once, and against a count by hand."""
    observer.once(observer.journal)
    other = rigs.folder / f"{observer.name}-at-once.sqlite"
    observer.once(other)
    lives, expected = lives_of(observer.journal), lives_of(other)
    assert lives == expected, _difference(observer, lives, expected)
    held, at_once = held_of(observer.journal), held_of(other)
    assert held == at_once, _difference(observer, held, at_once)
    by_hand = _counted(rigs, observer.name)
    booked_milli = Counter[str]()
    for (bucket, name), amount in held.items():
        if bucket in ALLOCATED:
            booked_milli[name] += amount
    booked = Counter({name: amount // WHOLE_MILLI for name, amount in booked_milli.items()})
    assert +booked == +by_hand, _difference(observer, booked, by_hand)
    attempts = sum(kind.startswith("PlacementSeen") for kind, _, _ in lives.elements())
    measured = ""
    if observer.name == "fleet":
        measured = _measured(observer.journal, has_devices=bool(rigs.prometheus))
    return (f"{observer.kills} kills, {observer.grew} of them after it had told something new;"
            f" {len(by_hand)} jobs, {attempts} attempts, {sum(booked.values()) // 1000:,}"
            f" GPU-seconds{measured}: all is right")  # fmt: skip


def _measured(journal: Path, *, has_devices: bool) -> str:
    """How often loops and devices said something; both must have."""
    with open_journal(str(journal)) as opened:
        kinds = Counter(type(event) for event in opened.read())
    assert kinds[ev.CheckpointSeen], "no loop was joined"
    assert kinds[ev.ActivitySeen] or not has_devices, "Prometheus was not joined"
    return (f", {kinds[ev.CheckpointSeen]:,} checkpoints of loops and {kinds[ev.ActivitySeen]:,}"
            " changes of how busy GPUs were")  # fmt: skip


def _difference(observer: Killed, found: Counter[Any], expected: Counter[Any]) -> str:
    more, less = (found - expected).most_common(5), (expected - found).most_common(5)
    return f"too much: {more}; too little: {less}; {observer.said()}"


def lives_of(journal: Path) -> Counter[tuple[str, str, int]]:
    """How often what happened to which job when."""
    found, names = Counter[tuple[str, str, int]](), list[str]()
    with open_journal(str(journal)) as opened:
        for event in opened.read():
            if isinstance(event, ev.JobSubmitted):
                names.append(event.job.name)
                found["JobSubmitted", event.job.name, event.at_ms] += 1
            elif isinstance(event, LIVES):
                what = type(event).__name__
                if isinstance(event, ev.PlacementSeen):
                    what += f" {sum(piece.replicas for piece in event.pieces)}"
                found[what, names[event.job], event.at_ms] += 1
    return found


def held_of(journal: Path) -> Counter[tuple[int, str]]:
    """What each job held, by bucket."""
    statement, found = api.read_statement(str(journal)), Counter[tuple[int, str]]()
    for (bucket, j), amount in amounts(statement, "bucket", "job").items():
        if j >= 0:
            found[bucket, statement.world.job_names[j]] += amount
    return +found


def _counted(rigs: Rigs, name: str) -> Counter[str]:
    """GPU-milliseconds of every job by what the clusters themselves print."""
    found, prefix = Counter[str](), {"fleet": ("hpc/", "pods/")}.get(name, ("", ""))
    if name != "kubernetes" and rigs.slurm is not None:
        found += Counter({f"{prefix[0]}{job}": ms for job, ms in _by_sacct(rigs.slurm).items()})
    if name != "slurm" and rigs.kubernetes is not None:
        found += Counter({f"{prefix[1]}{job}": ms for job, ms in _by_pods(rigs.kubernetes).items()})
    return found


def _by_sacct(rig: slurm.Cluster) -> Counter[str]:
    text = rig.run("env", "SLURM_TIME_FORMAT=%s", "sacct", "-X", "-D", "-P", "-n", "-a",
                   "-S", "now-3hours", "-o", "jobid,start,end,alloctres")  # fmt: skip
    found = Counter[str]()
    for line in text.splitlines():
        job, start, end, tres = line.split("|")
        gpus = [part.split("=")[1] for part in tres.split(",") if part.startswith("gres/gpu=")]
        if gpus and start.isdecimal():
            found[job] += 1000 * int(gpus[0]) * (int(end) - int(start))
    return found


def _by_pods(rig: kubernetes.Cluster) -> Counter[str]:
    found = Counter[str]()
    for one in rig.pods("ml").values():
        name = one["metadata"].get("labels", {}).get("batch.kubernetes.io/job-name")
        gpus = int(one["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"])
        (begun,) = (c["lastTransitionTime"] for c in one["status"]["conditions"]
                    if c["type"] == "PodScheduled")  # fmt: skip
        over = one["status"]["containerStatuses"][0]["state"]["terminated"]["finishedAt"]
        length = datetime.fromisoformat(over) - datetime.fromisoformat(begun)
        found[f"ml/{name or one['metadata']['name']}"] += (
            1000 * gpus * round(length.total_seconds())
        )
    return found


def main() -> None:
    """Kill as often as asked, on rigs of its own."""
    parser = argparse.ArgumentParser(prog="tests.rigs.observers")
    parser.add_argument("kills", type=int, nargs="?", default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--within", type=float, default=math.inf, help="stop after so many seconds")
    parser.add_argument("--of", nargs="+", choices=OBSERVERS, default=OBSERVERS)
    asked, begun = parser.parse_args(), time.monotonic()
    found = kill_often(asked.of, asked.kills, asked.seed, asked.within)
    for name, said in found.items():
        print(f"{name}: {said}")
    print(f"seed {asked.seed}, {time.monotonic() - begun:,.0f} s")


if __name__ == "__main__":
    main()
