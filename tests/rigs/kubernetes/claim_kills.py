"""Killing a scheduler of ours while it allocates devices to claims: `python -m … COUNT [SEED]`.

As ``kills``, with gangs whose pods have their GPUs by claim (DRA): a kill may fall between the
allocation of a claim and the bind, or between two claims of a gang. At rest every device is in one
claim, every pod that is bound has its devices where it is, and the journal tells what is so.
"""

import random
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

from tests.rigs.kubernetes.claimed import TEMPLATES, allocated, publish, wrong_claims
from tests.rigs.kubernetes.cluster import Cluster
from tests.rigs.kubernetes.forked import ForkedProcess
from tests.rigs.kubernetes.kills import JOBS
from tests.rigs.kubernetes.scheduled import (
    OURS,
    Process,
    held_in_journal,
    in_part,
    live,
    ready_rig,
)
from tests.rigs.kubernetes.wanted import (
    claim_spec,
    claim_template,
    claiming,
    device,
    gang,
)
from tests.rigs.slurm.cluster import quick_folder

MACHINES, DEVICES, GANGS, SIZE = 4, 8, 5, 6
LONGEST_S = 0.6
"""So long after it began a scheduler is killed at the latest: most binds are done by then."""


def kill_often(rig: Cluster, ours: Process, kills: int, seed: int) -> dict[str, int]:
    """So many kills; what they left. Raises if anything is wrong at rest."""
    chance, tick, done, turn = random.Random(seed), threading.Event(), 0, 0
    fell = {"claims without binds": 0, "in a gang": 0, "otherwise": 0}
    some = [device(f"gpu-{d}") for d in range(DEVICES)]
    publish(rig, {f"d{i}": some for i in range(MACHINES)})
    rig.create(TEMPLATES, claim_template("one", claim_spec(1)))
    while done < kills:
        rig.create(JOBS, *(
            gang(f"g{turn}-{i}", SIZE, 0, schedulerName=OURS, **claiming(template="one"))
            for i in range(GANGS)
        ))  # fmt: skip
        for _ in range(min(3, kills - done)):
            ours.said.unlink(missing_ok=True)
            ours.start()
            ours.wait_for("began")
            tick.wait(chance.uniform(0, LONGEST_S))
            ours.kill()
            done += 1
            fell[_where(rig)] += 1
        ours.start("--once")
        assert ours.process is not None
        assert ours.process.wait(120) == 0, ours.said.read_text()[-3000:]
        found = wrong(rig, ours.journal)
        assert not found, f"seed {seed}, round {turn}, after {done} kills: {found}"
        print(f"after {done} kills all is right: {fell}", file=sys.stderr, flush=True)
        at_once = {"gracePeriodSeconds": 0, "propagationPolicy": "Background"}
        rig.ask("DELETE", JOBS, at_once)
        rig.wait_for("all pods are gone", lambda: not live(rig) and not allocated(rig))
        turn += 1
    return fell


def _where(rig: Cluster) -> str:
    bound = sum(bool(pod["spec"].get("nodeName")) for pod in live(rig))
    if len(allocated(rig)) > bound:
        return "claims without binds"
    return "in a gang" if in_part(rig) else "otherwise"


def wrong(rig: Cluster, journal: str) -> list[str]:
    """Everything that must not be, in words, by plain loops."""
    found = wrong_claims(rig)
    found += [f"{name} is bound in part: {of}" for name, of in in_part(rig).items()]
    here = Counter((pod["spec"].get("nodeName", ""), 1) for pod in live(rig))
    found += [f"{count} pods wait" for (where, _), count in here.items() if not where]
    if (told := held_in_journal(journal)) != here:
        found.append(f"the journal has {told}, the cluster {here}")
    return found


def main() -> None:
    """Kill as often as asked, on a rig of its own."""
    kills, seed = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1
    begun = time.monotonic()
    with (
        tempfile.TemporaryDirectory(prefix="tidemill-", dir=quick_folder()) as folder,
        ready_rig(Path(folder)) as rig,
        ForkedProcess(rig, Path(folder)) as ours,
    ):
        fell = kill_often(rig, ours, kills, seed)
    print(f"{kills} kills (seed {seed}) in {time.monotonic() - begun:,.0f} s: {fell}; all is right")


if __name__ == "__main__":
    main()
