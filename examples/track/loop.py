"""A "training" loop of pure Python that is tracked, saves, and goes on where it stopped.

    TIDEMILL_TRACK=file:out/track python examples/track/loop.py out/state.json --steps 2000

Kill it (kill -9 as well) and run the same command again. It needs neither a GPU nor a framework.
"""

import argparse
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

from tidemill import track

TOKENS = 1024


def main() -> None:
    """Train to the last step, from the checkpoint if there is one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("state", type=Path, help="where the checkpoint is")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--save-every", type=int, default=20)
    parser.add_argument("--step-ms", type=float, default=10)
    asked = parser.parse_args()
    with track.job("pure-python", team="examples") as run:
        weights, done = load(asked.state, run)
        for batch in run.batches(batches(asked.steps - done)):
            with run.step(tokens=TOKENS, flops=6 * len(weights) * TOKENS):
                weights = learn(weights, batch, asked.step_ms)
            print(f"step {run.last_step} at {time.time_ns() // 1000}", flush=True)
            if run.last_step % asked.save_every == 0:
                with run.checkpoint() as saving:
                    saving.bytes = save(asked.state, weights, run.last_step)
    print("done", flush=True)


def load(state: Path, run: track.TrackedRun) -> tuple[list[float], int]:
    """The weights and the number of steps that made them."""
    if not state.exists():
        return [0.0] * 256, 0
    saved = json.loads(state.read_text(encoding="utf-8"))
    run.restored(saved["step"])
    return saved["weights"], saved["step"]


def save(state: Path, weights: list[float], step: int) -> int:
    """Write a checkpoint that is whole or absent; returns its size."""
    beside = state.with_suffix(".new")
    beside.parent.mkdir(parents=True, exist_ok=True)
    beside.write_text(json.dumps({"step": step, "weights": weights}), encoding="utf-8")
    with beside.open("rb") as file:
        os.fsync(file.fileno())
    beside.replace(state)
    return state.stat().st_size


def batches(count: int) -> Iterator[list[float]]:
    """Made up, a little late each."""
    for i in range(count):
        time.sleep(0.001)
        yield [i / 7, i / 3]


def learn(weights: list[float], batch: list[float], step_ms: float) -> list[float]:
    """One step: keep the processor busy as long as asked."""
    until_s = time.perf_counter() + step_ms / 1000
    while time.perf_counter() < until_s:
        weights = [0.9 * weight + 0.1 * batch[0] for weight in weights]
    return weights


if __name__ == "__main__":
    main()
