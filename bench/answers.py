"""Whole commands that answer a question about a journal: what one asks at a terminal waits for.

``tidemill why``, ``decision``, ``pending``, ``fit`` and ``fleet`` at a moment of the demo, each as
a process of its own with everything compiled already: start of Python, imports, reading the
journal, answer. In steps of the reference loop that the same CPU time would take, because machines
differ.
"""

import os
import resource
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench.spine import reference_per_cpu_s
from tidemill import api
from tidemill.journal.moments import COUNTED
from tidemill.model.world import World
from tidemill.twin.spec.tables import Spec

ASKED = (
    "why",
    "decision",
    "decision, running",
    "why --eta",
    "pending",
    "pending --no-eta",
    "fit",
    "fleet",
)


def run(
    repeats: int = 5, spec: str | None = None, at: str = "5d", asked: tuple[str, ...] = ASKED
) -> dict[str, Any]:
    """These commands at one moment of the demo, or of another spec; the best of several times."""
    loaded = api.demo_spec() if spec is None else api.load_spec(spec)
    with TemporaryDirectory() as folder:
        journal = str(Path(folder) / "run.sqlite")
        api.simulate(loaded, journal)
        world, _ = api.open_world(journal, COUNTED.ms(at, "--at"))
        env = os.environ | {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": folder}
        reference = max(reference_per_cpu_s() for _ in range(5))
        found: dict[str, Any] = {"reference_per_cpu_s": round(reference)}
        questions = _questions(loaded, world)
        for name in asked:
            words = questions[name]
            command = [sys.executable, "-m", "tidemill", *words, "-j", journal, "--at", at]
            cpu_s = min(_cpu_s(command, env) for _ in range(repeats + 1))  # the first one compiles
            steps = round(cpu_s * reference / 1000)
            found[name] = {"cpu_s": round(cpu_s, 2), "thousand_reference_steps": steps}
    return found


def _questions(spec: Spec, world: World) -> dict[str, list[str]]:
    """About the job that came last of those that wait, about the one that was placed last of those
    that run, and about one that nobody submitted.
    """
    job = world.job_names[max(j for jobs in world.waiting for j in jobs)]
    running = world.job_names[max(world.placements)]
    fit = ["fit", "--team", spec.teams[0].name, "--gpus", "64", "--per-node", "8", "--hours", "12"]
    return {
        "why": ["why", job],
        "decision": ["decision", job],
        "decision, running": ["decision", running],
        "why --eta": ["why", job, "--eta"],
        "pending": ["pending"],
        "pending --no-eta": ["pending", "--no-eta"],
        "fit": fit,
        "fleet": ["fleet"],
    }


def _cpu_s(command: list[str], env: dict[str, str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, env=env, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
