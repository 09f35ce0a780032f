"""Start the rig by hand: ``python -m tests.rigs.slurm FOLDER [NODES]``; ends with Ctrl-C.

Prints the one line that makes Slurm's own commands talk to it.
"""

import signal
import sys
import threading
from pathlib import Path

from tests.rigs.slurm import cluster


def main() -> None:
    """Run until interrupted."""
    if reason := cluster.missing():
        sys.exit(f"cannot start a real Slurm: {reason}")
    if len(sys.argv) < 2:
        sys.exit("usage: python -m tests.rigs.slurm FOLDER [NODES]")
    nodes = int(sys.argv[2]) if len(sys.argv) > 2 else 4
    stop = threading.Event()
    for one in (signal.SIGINT, signal.SIGTERM):
        signal.signal(one, lambda *_: stop.set())
    with cluster.running(Path(sys.argv[1]).resolve(), nodes) as rig:
        print(f"export SLURM_CONF={rig.folder}/slurm.conf", flush=True)
        stop.wait()


if __name__ == "__main__":
    main()
