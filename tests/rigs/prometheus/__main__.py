"""Start the rig by hand: ``python -m tests.rigs.prometheus FOLDER SERIES``; ends with Ctrl-C.

SERIES is a file in OpenMetrics' format, by metric, with times. Prints the address.
"""

import signal
import sys
import threading
from pathlib import Path

from tests.rigs.prometheus import server


def main() -> None:
    """Run until interrupted."""
    if reason := server.missing():
        sys.exit(f"cannot start a real Prometheus: {reason}")
    if len(sys.argv) != 3:
        sys.exit("usage: python -m tests.rigs.prometheus FOLDER SERIES")
    stop = threading.Event()
    for one in (signal.SIGINT, signal.SIGTERM):
        signal.signal(one, lambda *_: stop.set())
    folder = Path(sys.argv[1]).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    lines = Path(sys.argv[2]).read_text(encoding="utf-8").splitlines()
    with server.running(folder, lines) as url:
        print(url, flush=True)
        stop.wait()


if __name__ == "__main__":
    main()
