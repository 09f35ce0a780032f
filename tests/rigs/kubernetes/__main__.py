"""Start the rig by hand: ``python -m tests.rigs.kubernetes FOLDER [NODES]``; ends with Ctrl-C.

Prints the one line that makes `kubectl` talk to it. Nodes have eight GPUs each, in racks of four;
pods that are bound to them run until they are deleted. With ``--groups`` the API server has the
Workloads and PodGroups of Kubernetes itself.
"""

import signal
import sys
import threading
from pathlib import Path

from tests.rigs.kubernetes import cluster
from tests.rigs.kubernetes.wanted import node

USAGE = "usage: python -m tests.rigs.kubernetes FOLDER [NODES] [--groups]"


def main() -> None:
    """Run until interrupted."""
    if reason := cluster.missing():
        sys.exit(f"cannot start a real Kubernetes: {reason}")
    told = [one for one in sys.argv[1:] if one != "--groups"]
    flags = cluster.GROUPS if len(told) < len(sys.argv) - 1 else ()
    if not told:
        sys.exit(USAGE)
    nodes = int(told[1]) if len(told) > 1 else 4
    stop = threading.Event()
    for one in (signal.SIGINT, signal.SIGTERM):
        signal.signal(one, lambda *_: stop.set())
    with cluster.running(Path(told[0]).resolve(), *flags) as rig:
        rig.add_nodes(*(node(f"n{i}", rack=f"r{i // 4}") for i in range(nodes)))
        print(f"export KUBECONFIG={rig.kubeconfig}", flush=True)
        stop.wait()


if __name__ == "__main__":
    main()
