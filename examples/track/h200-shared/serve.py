"""A service that is asked at times, on the part of a GPU that MPS leaves it; and what clients saw.

``python serve.py SECONDS WATCH``: clients ask for a sixth of the time, not at all for two minutes
of the clock at most, then until the end. ``tidemill.track`` counts, and the clients have a
stopwatch of their own, which is written into WATCH. The decoder is that of ``h200-service``.
"""

import json
import sys
import threading
import time
from pathlib import Path

BEGAN_S = time.time()
sys.path.insert(0, str(Path(__file__).parent.with_name("h200-service")))

from serving import Clients, loaded, serve  # noqa: E402 - found by the line above

from tidemill import track  # noqa: E402 - what came before counts as its start

ASKED_PER_S = 4.0
PHASES = ("before", "after")


def main() -> None:
    seconds, watch = float(sys.argv[1]), Path(sys.argv[2])
    with track.service("chat", team="serving", user="bob", gpus=1) as served:
        model = loaded()
        served.ready()
        ready_s, clients = time.time(), Clients(served)
        worker = threading.Thread(target=serve, args=(model, clients.inbox), daemon=True)
        worker.start()
        end_s = BEGAN_S + seconds
        clients.ask("before", ASKED_PER_S, ready_s + seconds / 6)
        answered(clients, end_s)
        quiet_s = time.time()
        time.sleep(max(0.0, min((quiet_s // 60 + 2) * 60 + 1.5, end_s - 10) - time.time()))
        asking_s = time.time()
        clients.ask("after", ASKED_PER_S, end_s)
        answered(clients, end_s + 20)
        clients.inbox.put(None)
        worker.join(20)
    told = {
        "began_s": BEGAN_S, "ready_s": ready_s, "quiet_s": quiet_s, "asking_s": asking_s,
        "end_s": time.time(), "phases": {phase: clients.watched((phase,)) for phase in PHASES},
        "all": clients.watched(PHASES),
        "requests": [
            [round(one.sent_s + time.time() - time.perf_counter(), 3),
             round(one.last_s - one.sent_s, 4), one.tokens_in, one.made]
            for one in clients.asked
        ],
    }  # fmt: skip
    watch.write_text(json.dumps(told) + "\n")


def answered(clients: Clients, until_s: float) -> None:
    """Wait until all that was asked is answered."""
    while any(one.left for one in clients.asked) and time.time() < until_s:
        time.sleep(0.05)


main()
