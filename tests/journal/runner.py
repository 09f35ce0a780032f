"""A run that can be killed: ``python -m tests.journal.runner SPEC JOURNAL``.

It commits and takes snapshots far more often than ``tidemill twin run`` does, so that a run of a
second has many instants at which it can be stopped; otherwise it is the same run. ``--resume`` goes
on with one; ``--limit=BYTES`` lets no file grow beyond that, as if the disk were full.
"""

import resource
import sys

from tidemill import api
from tidemill.journal import snapshots

BEATS_PER_COMMIT = 10
EVENTS_APART = 100


def often() -> None:
    """Commit and take snapshots often, in this process."""
    api.TWIN_BEATS_PER_COMMIT = BEATS_PER_COMMIT
    snapshots.APART = EVENTS_APART


if __name__ == "__main__":
    often()
    for word in sys.argv[3:]:
        if word.startswith("--limit="):
            most = int(word.partition("=")[2])
            resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    api.simulate(api.load_spec(sys.argv[1]), sys.argv[2], is_resumed="--resume" in sys.argv)
