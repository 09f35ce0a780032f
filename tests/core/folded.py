"""What stories fold to: run as a program, in a process of its own."""

import sys
from pathlib import Path

import msgspec

from tidemill.core import snapshot
from tidemill.engine.fold import fold_all
from tidemill.engine.fold_batch import fold_batch
from tidemill.model.batch import Dictionary
from tidemill.model.batch.convert import of_events
from tidemill.model.events import Event
from tidemill.model.world import World


def digests(path: Path) -> list[str]:
    """What stories fold to that were written to a file: event by event, and as batches."""
    found = []
    for events in msgspec.json.decode(path.read_bytes(), type=list[list[Event]]):
        found.append(snapshot.digest(fold_all(World(), events)))
        found.append(snapshot.digest(fold_batch(World(), of_events(events, Dictionary()))))
    return found


if __name__ == "__main__":
    print("compiled" if "numba" in sys.modules else "interpreted")
    print(*digests(Path(sys.argv[1])))
