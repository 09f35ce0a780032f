"""Run the benchmarks: ``python -m bench [name …] [--quick]``; figures go to stdout as JSON."""

import argparse
import json
import sys
from collections.abc import Callable
from typing import Any

from bench import (
    answers,
    backlog,
    bands,
    binding,
    decisions,
    features,
    fgd,
    fixes,
    infeasible,
    journal,
    kubernetes,
    ledger,
    muri,
    ordinary,
    packing,
    placing,
    pods,
    poll,
    prometheus,
    quality,
    replay,
    room,
    sharing,
    slurm,
    slurm_import,
    spine,
    steps,
    stragglers,
    topology,
    track,
    waiting,
    year,
)

SCENARIOS: dict[str, Callable[..., dict[str, Any]]] = {
    "spine": spine.run,
    "overload": spine.overload,
    "ordinary": ordinary.run,
    "features": features.run,
    "journal": journal.run,
    "ledger": ledger.run,
    "backlog": backlog.run,
    "why": waiting.run,
    "decisions": decisions.run,
    "answers": answers.run,
    "bands": bands.run,
    "infeasible": infeasible.run,
    "muri": muri.run,
    "topology": topology.run,
    "sharing": sharing.run,
    "room": room.run,
    "fgd": fgd.run,
    "departures": fgd.departures,
    "placing": placing.run,
    "quality": quality.run,
    "replay": replay.run,
    "million": replay.million,
    "steps": steps.run,
    "fixes": fixes.run,
    "track": track.run,
    "stragglers": stragglers.run,
    "slurm": slurm.run,
    "import": slurm_import.run,
    "pods": pods.run,
    "poll": poll.run,
    "prometheus": prometheus.run,
    "kubernetes": kubernetes.run,
    "binding": binding.run,
    "packing": packing.run,
    "year": year.run,
}
QUICK: dict[str, tuple[Any, ...]] = {
    "spine": (5_000,),
    "overload": (5_000,),
    "million": (1_000, 1, 2),
    "ordinary": (500, 32, 1),
    "features": (100, 16),
    "journal": (300, 50),
    "ledger": (50, 500, 1),
    "backlog": (200, 100, 30),
    "why": (1_000, 500),
    "decisions": ("tests/cli/tiny.toml",),
    "answers": (1, "tests/cli/tiny.toml", "31h"),
    "bands": (12, ("muri trace3",)),
    "infeasible": (1_000,),
    "muri": (("trace3",),),
    "topology": (2_000, 64),
    "sharing": (2_000, 2),
    "room": (1, 1),
    "fgd": ((42, 43),),
    "departures": ((42,), 1),
    "placing": ((300,), 5_000),
    "quality": (16,),
    "replay": (True,),
    "steps": (),
    "fixes": (1,),
    "track": (1, 600, 500),
    "stragglers": (2,),
    "slurm": (20_000, 5_000),
    "import": (2_000, 16),
    "pods": (500, 50),
    "poll": (500, 64),
    "prometheus": (80, 1),
    "kubernetes": (10, 40, 50),
    "binding": ((20,), 50, 4, 1.0, 5.0),
    "packing": (42, 40),
    "year": (3, 16),
}


def main() -> None:
    """Run the scenarios that were named, or all."""
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*SCENARIOS, []], help="default: all")
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it works")
    asked = parser.parse_args()
    results = {}
    for name in asked.names or SCENARIOS:
        print(f"running {name} …", file=sys.stderr)
        results[name] = SCENARIOS[name](*(QUICK[name] if asked.quick else ()))
    print(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
