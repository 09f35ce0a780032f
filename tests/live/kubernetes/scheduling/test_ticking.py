"""The books of a scheduler go on while nothing happens, and grow little by that."""

import asyncio
import random

from tests.live.kubernetes.scheduling.pretended import PretendedServer, Scheduler
from tidemill.journal.memory import MemoryJournal
from tidemill.ledger.reader import Ledger
from tidemill.ledger.statement import Statement
from tidemill.live.kubernetes.scheduling.backend import TICK_MS
from tidemill.model import events as ev


def idle(scheduler: Scheduler, seconds: int) -> None:
    """So long nothing changes; who decides is asked every second."""
    for _ in range(seconds):
        scheduler.beat()


def test_books_of_an_idle_cluster_go_on_every_minute():
    """A pod on all 8 GPUs, and ten minutes of nothing: all but the last minute is in the books."""
    server, journal = PretendedServer(random.Random(1)), MemoryJournal()
    server.put_node("n0", 8)
    server.make("all", 8)
    scheduler = Scheduler(server, journal)
    asyncio.run(scheduler.rest())
    idle(scheduler, 2)
    before = len(journal)
    idle(scheduler, 600)
    told = list(journal.read(before))
    assert {type(event) for event in told} == {ev.Woke}
    assert 9 <= len(told) <= 10
    world = scheduler.loop.world
    assert scheduler.clock - world.now_ms < TICK_MS + 1000
    ledger = Ledger()
    for batch in journal.batches(0):
        ledger.read_batch(batch)
    began_ms = next(event.at_ms for event in journal.read(0) if isinstance(event, ev.NodeAdded))
    assert Statement(ledger).total().paid_milli_ms == 8_000 * (world.now_ms - began_ms)


def test_whoever_goes_on_with_a_journal_of_an_idle_cluster_ticks_too():
    """Nothing changed since the last scheduler: the books reach the present, and go on."""
    server, journal = PretendedServer(random.Random(1)), MemoryJournal()
    server.put_node("n0", 8)
    asyncio.run(Scheduler(server, journal).rest())
    again = Scheduler(server, journal)
    asyncio.run(again.rest())
    idle(again, 130)
    assert again.clock - again.loop.world.now_ms < TICK_MS + 1000


def test_a_cluster_without_nodes_has_no_time_to_tell():
    """Nothing is paid there: nothing is written."""
    journal = MemoryJournal()
    scheduler = Scheduler(PretendedServer(random.Random(1)), journal)
    idle(scheduler, 130)
    assert not any(isinstance(event, ev.Woke) for event in journal.read(0))
