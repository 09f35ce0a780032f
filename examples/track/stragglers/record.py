"""Real step series with and without slow ranks: eight processes train together, one core each.

    PYTHONPATH=src python examples/track/stragglers/record.py --out planned
    PYTHONPATH=src python examples/track/stragglers/record.py --out drawn --seed 2 --run-s 34

A model is trained with ``torch.distributed`` (gloo) on the CPU: each rank is pinned to a core and
tells ``tidemill.track`` its steps and its waits for the others. In some of the runs something is
done to one rank from outside: a second process competes for its core (``compete``, at a niceness
that decides how much it takes), it is stopped and continued many times a second (``pause``), or
its data come late (``data``). The loop knows nothing of that. ``records.jsonl.gz`` has all records,
``runs.json`` what was done to whom and when, and a stopwatch's time of each rank's own work, which
``tidemill.track`` did not take. ``--stand-in`` trains with numpy and shared memory, without torch.
"""

import argparse
import gzip
import json
import multiprocessing as mp
import os
import platform
import random
import signal
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

from tidemill import track

RUN_S, REST_S, EVERY_S = 19.0, 1.0, 0.5
BATCH, WIDTH, SAVE_EVERY = 256, 256, 100
PAUSE_EVERY_S = 0.1
PORT = "29517"


class Harm(NamedTuple):
    """What is done to a rank, in shares of the run's time."""

    rank: int
    how: str
    """``compete``, ``pause`` or ``data``."""
    much: float
    """The niceness of the competitor; the share of time that is paused; seconds per batch."""
    begin: float
    end: float


class PlannedRun(NamedTuple):
    """One run of all ranks."""

    name: str
    saves: bool = False
    harms: tuple[Harm, ...] = ()


def plan(ranks: int) -> list[PlannedRun]:
    """The runs; about a third without any slow rank."""

    def at(number: int) -> int:
        return number % ranks

    def harm(rank: int, how: str, much: float, begin: float, end: float = 1.0) -> tuple[Harm, ...]:
        return (Harm(at(rank), how, much, begin, end),)

    everyone = tuple(Harm(rank, "compete", 5, 0.4, 1.0) for rank in range(ranks))
    on_and_off = tuple(
        Harm(at(4), "compete", 0, begin, begin + 0.12) for begin in (0.25, 0.5, 0.75)
    )
    return [
        PlannedRun("clean-1"),
        PlannedRun("compete-half", harms=harm(3, "compete", 0, 0.4)),
        PlannedRun("clean-2-saves", saves=True),
        PlannedRun("compete-quarter", harms=harm(6, "compete", 5, 0.4)),
        PlannedRun("compete-tenth", harms=harm(1, "compete", 10, 0.4)),
        PlannedRun("clean-3"),
        PlannedRun("from-the-start", harms=harm(5, "compete", 5, 0.0)),
        PlannedRun("pause-quarter", saves=True, harms=harm(2, "pause", 0.25, 0.4)),
        PlannedRun("clean-4-saves", saves=True),
        PlannedRun("on-and-off", harms=on_and_off),
        PlannedRun("two-at-once", harms=(*harm(0, "compete", 5, 0.4), *harm(7, "pause", 0.3, 0.4))),
        PlannedRun("everyone", harms=everyone),
        PlannedRun("data-late", harms=harm(4, "data", 0.01, 0.4)),
        PlannedRun("recovers", harms=harm(2, "compete", 3, 0.3, 0.7)),
        PlannedRun("clean-5"),
    ]


def drawn(ranks: int, seed: int, runs: int = 9) -> list[PlannedRun]:
    """Runs that chance planned: nobody knew them when the detector was made."""
    chance = random.Random(seed)
    found = []
    for number in range(1, runs + 1):
        count = chance.choice((0, 1, 1, 1, 2) if number % 3 else (0,))
        harms = []
        for rank in chance.sample(range(ranks), count):
            how = chance.choice(("compete", "compete", "pause", "data"))
            much = {
                "compete": float(chance.choice((0, 2, 4, 6))),
                "pause": round(chance.uniform(0.15, 0.4), 2),
                "data": round(chance.uniform(0.002, 0.012), 4),
            }[how]
            begin = round(chance.choice((0.0, chance.uniform(0.2, 0.5))), 2)
            harms.append(Harm(rank, how, much, begin, chance.choice((1.0, 1.0, begin + 0.4))))
        found.append(PlannedRun(f"drawn-{seed}-{number}", chance.random() < 0.5, tuple(harms)))
    return found


class RankOutcome(NamedTuple):
    """What a stopwatch says of one rank in one run."""

    name: str
    rank: int
    steps: int
    before_us: int | None
    """The mean time of its own work per step, while nothing was done to it."""
    during_us: int | None
    """And meanwhile; of a rank that nothing was done to, while something was done to another."""


class TorchModel:
    """Two linear layers, trained by gradient descent; gradients are summed with gloo."""

    def __init__(self, rank: int, ranks: int) -> None:
        import torch  # noqa: PLC0415 - the stand-in does without it
        import torch.distributed as dist  # noqa: PLC0415 - as above

        torch.set_num_threads(1)
        torch.manual_seed(rank)
        os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
        os.environ.setdefault("MASTER_PORT", PORT)
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
        dist.init_process_group("gloo", rank=rank, world_size=ranks)
        self._torch, self._dist = torch, dist
        self._model = torch.nn.Sequential(
            torch.nn.Linear(WIDTH, 4 * WIDTH), torch.nn.ReLU(), torch.nn.Linear(4 * WIDTH, WIDTH)
        )
        self._sum = torch.zeros(1)

    def compute(self) -> None:
        """Forward and backward; the gradients in one vector, with room for the flag."""
        batch = self._torch.randn(BATCH, WIDTH)
        self._model.zero_grad(set_to_none=True)
        (self._model(batch) - batch).square().mean().backward()
        parts = [weight.grad.flatten() for weight in self._model.parameters()]
        self._sum = self._torch.cat([*parts, self._torch.zeros(1)])

    def reduce(self, flag: float) -> float:
        """Sum the gradients of all ranks; the sum of the flags."""
        self._sum[-1] = flag
        self._dist.all_reduce(self._sum)
        return float(self._sum[-1])

    def update(self) -> None:
        """One step of gradient descent."""
        at = 0
        with self._torch.no_grad():
            for weight in self._model.parameters():
                size = weight.numel()
                weight.sub_(1e-4 * self._sum[at : at + size].view_as(weight))
                at += size

    def save(self, path: Path) -> None:
        """Write the weights."""
        self._torch.save(self._model.state_dict(), path)


class StandIn:
    """The same steps in numpy, with a barrier and shared memory in place of gloo."""

    def __init__(self, rank: int, ranks: int, shared: Any) -> None:  # noqa: ANN401 - of ``mp``
        import numpy as np  # noqa: PLC0415 - what trains with torch does without it

        self._np, self._rank, self._ranks = np, rank, ranks
        self._barrier, flags = shared
        self._flags = np.frombuffer(flags, np.float64)
        self._weights = np.random.default_rng(rank).standard_normal((2, WIDTH, WIDTH))

    def compute(self) -> None:
        """Products of matrices."""
        batch = self._np.ones((BATCH, WIDTH))
        for _ in range(4):
            batch = self._np.tanh(batch @ self._weights[0] @ self._weights[1])

    def reduce(self, flag: float) -> float:
        """The sum of the flags of all ranks."""
        self._flags[self._rank] = flag
        self._barrier.wait()
        found = float(self._flags[: self._ranks].sum())
        self._barrier.wait()
        return found

    def update(self) -> None:
        """Nothing to learn."""

    def save(self, path: Path) -> None:
        """Write the weights."""
        path.write_bytes(self._weights.tobytes())


def work(rank: int, args: argparse.Namespace, shared: Any, told: Any) -> None:  # noqa: ANN401
    """One rank, through all runs."""
    os.sched_setaffinity(0, {core_of(rank)})
    os.environ.update(
        RANK=str(rank), WORLD_SIZE=str(args.ranks), LOCAL_RANK=str(rank), OMP_NUM_THREADS="1"
    )
    model = StandIn(rank, args.ranks, shared) if args.stand_in else TorchModel(rank, args.ranks)
    begins, folder = told["begins"], Path(told["folder"])
    for _ in range(30):  # warm: allocators, connections
        model.compute()
        model.reduce(0)
    told["ready"].wait()
    outcomes = []
    for number, one in enumerate(told["plan"]):
        told["start"].wait()
        outcomes.append(train(model, rank, one, begins[number], folder, args.run_s))
    told["outcomes"].put(outcomes)


def train(
    model: "TorchModel | StandIn", rank: int, one: PlannedRun, begin_s: float, folder: Path,
    run_s: float,
) -> RankOutcome:  # fmt: skip
    """One run of one rank: rank 0 says when it is over."""
    mine = [harm for harm in one.harms if harm.rank == rank] or one.harms
    late = [harm for harm in mine if harm.rank == rank and harm.how == "data"]
    own: dict[bool, list[int]] = {False: [], True: []}
    to = f"file:{folder / 'track'}"
    with track.job(one.name, gpus=1, to=to, every_s=EVERY_S) as run:
        is_over = False
        while not is_over:
            share = (time.monotonic() - begin_s) / run_s
            begun = time.monotonic_ns()
            with run.data():
                for harm in late:
                    if harm.begin <= share < harm.end:
                        time.sleep(harm.much)
            with run.step(samples=BATCH):
                model.compute()
                spent = time.monotonic_ns() - begun
                with run.communication():
                    is_over = model.reduce(float(rank == 0 and share >= 1.0)) > 0
                begun = time.monotonic_ns()
                model.update()
                spent += time.monotonic_ns() - begun
            own[any(harm.begin <= share < harm.end for harm in mine)].append(spent // 1000)
            if one.saves and run.last_step % SAVE_EVERY == 0:
                with run.checkpoint():
                    model.save(folder / f"{rank}.pt")
        steps = run.last_step
    before, during = (round(statistics.fmean(own[k])) if own[k] else None for k in (False, True))
    return RankOutcome(one.name, rank, steps, before, during)


def core_of(rank: int) -> int:
    """The core of a rank."""
    cores = sorted(os.sched_getaffinity(0))
    return cores[rank % len(cores)]


def compete(core: int, niceness: int) -> None:
    """Take what the scheduler gives of a core, for ever."""
    os.sched_setaffinity(0, {core})
    os.nice(niceness)
    while True:
        pass


def pause(pid: int, share: float) -> None:
    """Stop and continue a process, for ever; it goes on when this one is told to end."""

    def end(number: int, frame: object) -> None:  # noqa: ARG001 - a handler
        os.kill(pid, signal.SIGCONT)
        os._exit(0)

    signal.signal(signal.SIGTERM, end)
    while True:
        os.kill(pid, signal.SIGSTOP)
        time.sleep(share * PAUSE_EVERY_S)
        os.kill(pid, signal.SIGCONT)
        time.sleep((1 - share) * PAUSE_EVERY_S)


def harm_all(
    context: Any,  # noqa: ANN401 - of ``multiprocessing``
    one: PlannedRun,
    begin_s: float,
    pids: list[int],
    run_s: float,
) -> list[dict[str, Any]]:
    """Carry out what a run plans from outside; when it was done, in µs since the epoch."""
    done: list[dict[str, Any]] = [harm._asdict() for harm in one.harms]
    moments = sorted(
        [(harm.begin, True, i) for i, harm in enumerate(one.harms)]
        + [(harm.end, False, i) for i, harm in enumerate(one.harms)]
    )
    running: dict[int, Any] = {}
    for share, is_begin, i in moments:
        time.sleep(max(0.0, begin_s + share * run_s - time.monotonic()))
        done[i]["from_us" if is_begin else "to_us"] = time.time_ns() // 1000
        harm = one.harms[i]
        if is_begin and harm.how == "compete":
            running[i] = context.Process(target=compete, args=(core_of(harm.rank), int(harm.much)))
        elif is_begin and harm.how == "pause":
            running[i] = context.Process(target=pause, args=(pids[harm.rank], harm.much))
        if is_begin and i in running:
            running[i].start()
        elif not is_begin and i in running:
            running[i].terminate()
            running[i].join()
    time.sleep(max(0.0, begin_s + run_s - time.monotonic()))
    return done


def main() -> None:
    """Record all runs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="where the two files go")
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--run-s", type=float, default=RUN_S, help="seconds of one run")
    parser.add_argument("--only", default="", help="names of runs, with commas")
    parser.add_argument("--seed", type=int, help="runs drawn by chance, in place of the plan")
    parser.add_argument("--stand-in", action="store_true", help="numpy in place of torch")
    args = parser.parse_args()
    os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"
    context = mp.get_context("spawn")
    runs = plan(args.ranks) if args.seed is None else drawn(args.ranks, args.seed)
    runs = [one for one in runs if not args.only or one.name in args.only.split(",")]
    with tempfile.TemporaryDirectory() as folder:
        begins = context.Array("d", len(runs), lock=False)
        told = {
            "plan": runs, "begins": begins, "folder": folder, "outcomes": context.Queue(),
            "ready": context.Barrier(args.ranks + 1), "start": context.Barrier(args.ranks + 1),
        }  # fmt: skip
        shared = (context.Barrier(args.ranks), context.RawArray("d", args.ranks))
        ranks = [
            context.Process(target=work, args=(rank, args, shared, told))
            for rank in range(args.ranks)
        ]
        for process in ranks:
            process.start()
        told["ready"].wait(120)
        done = []
        for number, one in enumerate(runs):
            begins[number] = begin_s = time.monotonic() + REST_S
            began_us = time.time_ns() // 1000
            told["start"].wait(120)
            harms = harm_all(context, one, begin_s, [p.pid or 0 for p in ranks], args.run_s)
            done.append({"job": one.name, "began_us": began_us, "saves": one.saves, "harms": harms})
            print(f"{number + 1}/{len(runs)} {one.name}", file=sys.stderr, flush=True)
        outcomes = [told["outcomes"].get(timeout=120) for _ in ranks]
        for process in ranks:
            process.join(30)
        keep(args, done, outcomes, Path(folder, "track"))


def keep(
    args: argparse.Namespace, done: list[dict[str, Any]], outcomes: list[list[RankOutcome]],
    tracked: Path,
) -> None:  # fmt: skip
    """Write both files."""
    args.out.mkdir(parents=True, exist_ok=True)
    for number, run in enumerate(done):
        found = sorted((one[number] for one in outcomes), key=lambda one: one.rank)
        run["steps"] = found[0].steps
        run["own_us_before"] = [one.before_us for one in found]
        run["own_us_during"] = [one.during_us for one in found]
    about = {
        "ranks": args.ranks, "cores": os.cpu_count(), "run_s": args.run_s,
        "backend": "numpy stand-in" if args.stand_in else "torch gloo",
        "python": platform.python_version(), "runs": done,
    }  # fmt: skip
    Path(args.out, "runs.json").write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
    with gzip.GzipFile(args.out / "records.jsonl.gz", "wb", mtime=0) as file:
        for path in sorted(tracked.iterdir()):
            file.write(path.read_bytes())


if __name__ == "__main__":
    main()
