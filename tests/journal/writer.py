"""A writer that can be killed: ``python -m tests.journal.writer JOURNAL``.

For each line on its standard input it forks a child, says ``pid N``, waits for its death and says
``dead``. The child rebuilds the World and appends, as often as the line says (nothing: for ever),
says ``done`` and waits for its death. After each append that returned it says ``ack N``: N events
are safe. Everything was imported before the fork, and the kernels that rebuild
were called (they load when they are called first), so a child starts at once.
"""

import os
import signal
import sys
from itertools import count
from random import Random

from tidemill.engine.fold.one_event import fold
from tidemill.journal import open_journal
from tidemill.journal.replay import rebuild
from tidemill.model import events as ev
from tidemill.model.events import Event
from tidemill.model.reasons import Cause
from tidemill.model.rows import Job, Queue, Role, Shape

LARGEST_BATCH = 40
SNAPSHOT_SHARE = 0.1  # of the appends are followed by one


def event_at(seq: int) -> Event:
    """The event with this number in every journal that this writer writes."""
    if seq == 0:
        return ev.QueueSet(0, Queue("red"))
    if seq == 1 or seq % 20 == 0:
        roles = tuple(Role(f"role-{i}") for i in range(1 + seq % 7))
        return ev.JobSubmitted(seq, Job(f"job-{seq}", Shape("red", roles)))
    return ev.CauseChanged(seq, 0, Cause(seq % len(Cause)))


def serve(where: str) -> None:
    """Fork a child for each line that comes in."""
    with open_journal(":memory:", create=True) as journal:
        journal.append([event_at(seq) for seq in range(LARGEST_BATCH)])
        rebuild(journal)
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            write(where, int(line) if line.strip() else None)
            say("done")
            signal.pause()
        say(f"pid {pid}")
        os.waitpid(pid, 0)
        say("dead")


def write(where: str, appends: int | None) -> None:
    """Append so often; None: until somebody kills this process."""
    journal = open_journal(where, create=True)
    world = rebuild(journal)
    rng = Random(world.seq)
    for _ in count() if appends is None else range(appends):
        batch = [event_at(world.seq + i) for i in range(rng.randint(1, LARGEST_BATCH))]
        for event in batch:
            fold(world, event)
        journal.append(batch)
        say(f"ack {len(journal)}")
        if rng.random() < SNAPSHOT_SHARE:
            journal.save_snapshot(world)


def say(line: str) -> None:
    """Write one line at once; a line this short arrives whole."""
    os.write(sys.stdout.fileno(), f"{line}\n".encode())


if __name__ == "__main__":
    serve(sys.argv[1])
