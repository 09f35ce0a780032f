"""Start the rig by hand: ``python -m tests.rigs.kubernetes FOLDER [NODES]``; ends with Ctrl-C.

Prints the one line that makes `kubectl` talk to it. Nodes have eight GPUs each, in racks of four;
pods that are bound to them run until they are deleted.
"""

import signal
import sys
import threading
from pathlib import Path

from tests.rigs.kubernetes import cluster
from tests.rigs.kubernetes.wanted import node

USAGE = "usage: python -m tests.rigs.kubernetes FOLDER [NODES]"


def main() -> None:
    """Run until interrupted."""
    if reason := cluster.missing():
        sys.exit(f"cannot start a real Kubernetes: {reason}")
    if len(sys.argv) < 2:
        sys.exit(USAGE)
    nodes = int(sys.argv[2]) if len(sys.argv) > 2 else 4
    stop = threading.Event()
    for one in (signal.SIGINT, signal.SIGTERM):
        signal.signal(one, lambda *_: stop.set())
    with cluster.running(Path(sys.argv[1]).resolve()) as rig:
        rig.add_nodes(*(node(f"n{i}", rack=f"r{i // 4}") for i in range(nodes)))
        print(f"export KUBECONFIG={rig.kubeconfig}", flush=True)
        stop.wait()


if __name__ == "__main__":
    main()
