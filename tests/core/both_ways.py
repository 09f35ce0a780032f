"""What kernels make of stories: run as a program, in a process of its own."""

import sys
from hashlib import sha256
from pathlib import Path
from random import Random

import msgspec
import numpy as np

from tests.builders import contract, fleet, role
from tests.engine.stories import played
from tests.journal.stories import tell
from tidemill.core import snapshot
from tidemill.engine.fold.batch import fold_batch
from tidemill.engine.fold.one_event import fold_all
from tidemill.ledger.reader import Ledger
from tidemill.ledger.spans import Window
from tidemill.ledger.statement import Statement
from tidemill.model.batch import Dictionary
from tidemill.model.batch.convert import of_events
from tidemill.model.events import Event
from tidemill.model.measures import HOUR_MS
from tidemill.model.policy import Policy
from tidemill.model.world import World
from tidemill.scheduling.requests import SWEPT_AT_MOST
from tidemill.scheduling.scores.scoring import PACKING, SPREADING
from tidemill.scheduling.snapshot import Snapshot

SOURCES = ("stage", "twin")


def digests(path: Path) -> list[str]:
    """What stories of a file fold to, event by event and as batches; and their ledgers."""
    found = []
    for events in msgspec.json.decode(path.read_bytes(), type=list[list[Event]]):
        found.append(snapshot.digest(fold_all(World(), events)))
        found.append(snapshot.digest(fold_batch(World(), of_events(events, Dictionary()))))
        policies = (Policy(), Policy(order="shortest"))
        found += [digest_of_ledger(policy, events) for policy in policies]
    return found


def digest_of_ledger(policy: Policy, events: list[Event]) -> str:
    """A digest of all that the ledger finds."""
    ledger = Ledger(policy, Window(HOUR_MS, bin_ms=HOUR_MS), weighs_mix=True).read(events)
    statement = Statement(ledger)
    columns = (*statement.rows, *(statement.free_use or ()), *statement.waits, statement.paid)
    told = repr([column.tolist() for column in columns]) + repr(statement.stops)
    return sha256(told.encode()).hexdigest()


def journals(stories: int) -> bytes:
    """The first stories, played to their ends: the events of each."""
    told = [played(seed, source).kept for seed in range(stories) for source in SOURCES]
    return msgspec.json.encode(told + [tell(Random(seed), 200) for seed in range(stories)])


def filled() -> str:
    """Where requests go on a fleet that is large enough for trees, which stories never are."""
    luck, is_ok = Random(0), np.ones(1, np.int64)
    world = fleet(contract(gpus=(SWEPT_AT_MOST + 2) * 4, per_node=4, cpu_milli=20, memory_mib=16))
    room, found = Snapshot(world), []
    for _ in range(60):
        asked = role(
            luck.choice([1, 1, 1, 5]), gpus=luck.choice([0, 1, 2, 4]),
            cpu_milli=luck.choice([0, 3]), memory_mib=luck.choice([0, 2]),
        )  # fmt: skip
        if luck.random() < 0.4:
            asked = role(1, gpus=1, milli=luck.choice([250, 300]))
        placed = room.fill(asked, is_ok, luck.choice([PACKING, SPREADING])).placed
        found.append(placed)
    return sha256(repr(found).encode()).hexdigest()


if __name__ == "__main__":
    print("compiled" if "llvmlite" in sys.modules else "interpreted")
    print(*digests(Path(sys.argv[1])))
    print(sha256(journals(int(sys.argv[2]))).hexdigest(), filled())
