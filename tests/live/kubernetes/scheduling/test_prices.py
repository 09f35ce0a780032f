"""Prices that are given when a scheduler goes on with its journal."""

import asyncio
import random
from pathlib import Path

from tests.live.kubernetes.scheduling.pretended import PretendedServer, Scheduler
from tests.rigs.kubernetes.cluster import Cluster
from tests.rigs.kubernetes.scheduled import Process, scheduling
from tests.rigs.kubernetes.wanted import node
from tidemill.journal import Journal
from tidemill.journal.memory import MemoryJournal
from tidemill.ledger.reader import Ledger
from tidemill.ledger.statement import Account, Statement
from tidemill.live.prices import rules
from tidemill.model.states import JobState


def cluster() -> tuple[PretendedServer, MemoryJournal]:
    """A node of 8 GPUs with a pod on all of them."""
    server = PretendedServer(random.Random(1))
    server.put_node("n0", 8)
    server.make("all", 8)
    return server, MemoryJournal()


def worked(
    server: PretendedServer, journal: Journal, price_of: rules.PriceRule, minutes: int
) -> Scheduler:
    """A scheduler that began, or goes on, and was there for so long."""
    scheduler = Scheduler(server, journal, price_of=price_of)
    asyncio.run(scheduler.rest())
    for _ in range(60 * minutes):
        scheduler.beat()
    return scheduler


def account(journal: Journal) -> Account:
    """All that is in the books."""
    ledger = Ledger()
    for batch in journal.batches(0):
        ledger.read_batch(batch)
    return Statement(ledger).total()


def test_prices_that_were_unknown_are_known_from_the_restart_on():
    """What was paid before stays unknown; the pod works on, and no later look tells it again."""
    server, journal = cluster()
    first = worked(server, journal, rules.unpriced, 10)
    assert first.differ.nodes.prices() == (["n0"], [])
    before = account(journal)
    assert before.is_unpriced
    again = worked(server, journal, rules.flat({"": 3_600_000_000}), 10)
    after, world = account(journal), again.loop.world
    assert after.unpriced_milli_ms >= before.paid_milli_ms
    known_ms = (after.paid_milli_ms - after.unpriced_milli_ms) // 8_000
    assert known_ms > 9 * 60_000
    assert after.paid_usd_micro == 8_000 * known_ms
    assert JobState(world.jobs.state.item(world.job_number["ml/all"])) is JobState.RUNNING
    assert [name for name in server.asked if name[1] == "eviction"] == []
    assert again.differ.nodes.prices() == ([], [])
    seen = len(world.node_rows)
    server.put_node("n0", 8)
    server.deliver(again.view, len(server.news))
    asyncio.run(again.rest())
    assert len(world.node_rows) == seen


def test_prices_that_were_known_are_kept_and_that_is_said():
    """Another price on a restart changes nothing in the books of nodes that are there."""
    server, journal = cluster()
    worked(server, journal, rules.flat({"": 2_000_000}), 2)
    again = worked(server, journal, rules.flat({"": 5_000_000}), 2)
    assert again.differ.nodes.prices() == ([], ["n0"])
    assert len(again.loop.world.node_rows) == 1
    silent = worked(server, journal, rules.unpriced, 2)
    assert silent.differ.nodes.prices() == ([], [])


def test_the_log_says_what_has_no_price_and_which_prices_are_kept(rig: Cluster, tmp_path: Path):
    """A list price needs an instance type; a price comes with a restart, and stays with another."""
    rig.add_nodes(node("n0"))
    found = list[list[str]]()
    for prices in ("--list-prices",), ("--usd-per-hour", "2.50"), ("--usd-per-hour", "5"):
        with scheduling(rig, tmp_path, *prices, "--once") as ours:
            assert ours.process is not None
            assert ours.process.wait(120) == 0
        told = [one["event"] for one in ours.lines() if "price" in one["event"]]
        found.append(told[sum(map(len, found)) :])
    assert found == [["nodes without a price"], [], ["prices kept"]]
    (line,) = (one for one in ours.lines() if one["event"] == "nodes without a price")
    assert line["nodes"] == ["n0"]


def test_a_node_that_joins_without_a_price_is_named_in_the_log_too(rig: Cluster, tmp_path: Path):
    """Each once, whatever else changes."""
    rig.add_nodes(node("n0"))
    with scheduling(rig, tmp_path, "--list-prices") as ours:
        ours.wait_for("nodes without a price")
        rig.add_nodes(node("n1"))
        rig.wait_for("it is named", lambda: _unpriced(ours) == [["n0"], ["n1"]])
        rig.kubectl("label", "node", "n0", "zone=mars")
        rig.add_nodes(node("n2"))
        rig.wait_for("the next is", lambda: _unpriced(ours) == [["n0"], ["n1"], ["n2"]])


def _unpriced(ours: Process) -> list[list[str]]:
    return [one["nodes"] for one in ours.lines() if one["event"] == "nodes without a price"]
