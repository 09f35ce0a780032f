"""What nobody priced is unknown, never $0: its hours count, and dollars are of the rest."""

import msgspec
import pytest

from tests.live.history.test_history import attempts, read, state_after
from tidemill import explain
from tidemill.explain import inventory
from tidemill.ledger import comparison, difference, pricing, top
from tidemill.ledger.buckets import Bucket
from tidemill.ledger.document import document
from tidemill.ledger.leaks import leaks
from tidemill.ledger.printed import cost_text
from tidemill.ledger.statement import Statement
from tidemill.live.history.events import History, build
from tidemill.live.history.rows import SeenNode
from tidemill.live.prices import rules
from tidemill.model.measures import HOUR_MS, dollars_text
from tidemill.model.policy import Policy
from tidemill.model.rows import UNPRICED, Contract
from tidemill.report import headline

NODES = [SeenNode(name=f"{kind}{i}", gpus=8, gpu_type=kind) for kind in "ab" for i in range(2)]


def history(**rates: int) -> History:
    """Half of the fleet works for an hour of two; one job waits. ``rates``: dollars by GPU type."""
    rows = attempts(
        {"gpus": 16, "nodes": ["a0", "b0"], "start_ms": 0, "end_ms": HOUR_MS},
        {"gpus": 8, "nodes": ["a1"], "start_ms": 0, "end_ms": 2 * HOUR_MS},
        {"gpus": 8, "submit_ms": HOUR_MS},
    )
    return build(rows, NODES, rules.flat({k: usd * 1_000_000 for k, usd in rates.items()}))


@pytest.fixture(scope="module")
def unpriced() -> Statement:
    return read(history())


@pytest.fixture(scope="module")
def mixed() -> Statement:
    return read(history(A=3))


def test_an_unpriced_ledger_has_hours_and_no_dollars(unpriced: Statement):
    """64 GPU-hours are paid for; every amount of dollars in the document is null, none is 0."""
    made = msgspec.to_builtins(document(unpriced, by="team"))
    assert made["totals"]["milli_ms"] == made["totals"]["unpriced_milli_ms"] == 64 * 1000 * HOUR_MS
    dollars = [
        (key, value)
        for part in (made["totals"], *made["lines"], *made["breakdown"]["rows"], *made["leaks"])
        for key, value in part.items()
        if "usd" in key
    ]
    assert len(dollars) > 20
    assert all(value is None for _, value in dollars), dollars
    assert pricing.words(unpriced) == [pricing.NO_PRICES]
    assert headline.headline(unpriced.total(), unpriced.length_ms).figures[0].value == "unknown"


def test_of_a_mixed_fleet_the_known_part_is_told(mixed: Statement):
    """32 GPU-hours at $3 are known; 32 are not, and each line says what it leaves out."""
    totals, lines = document(mixed).totals, document(mixed).lines
    assert (totals.usd_micro, totals.unpriced_milli_ms) == (96_000_000, 32 * 1000 * HOUR_MS)
    assert sum(line.usd_micro or 0 for line in lines) == totals.usd_micro
    assert sum(line.unpriced_milli_ms for line in lines) == totals.unpriced_milli_ms
    assert totals.usd_micro_per_paid_hour == 3_000_000
    (said,) = pricing.words(mixed)
    assert said == (
        "dollars: the known part is $96.00, and nobody said a price of 32.0 accelerator-hours"
        " (`B x8`)"
    )
    account = mixed.total()
    assert account.told("$96.00") == "≥ $96.00"
    assert account.told("$0.00", Bucket.USEFUL) == "$0.00"


def test_lists_by_waste_rank_by_hours_where_a_price_is_missing(mixed: Statement):
    """The largest leak comes first although nobody knows what most of it cost."""
    found = [leak.milli_ms for leak in leaks(mixed)]
    assert found == sorted(found, reverse=True)
    for row in top.top_jobs(mixed):
        assert row.paid_usd_micro is None or row.job == "1"


def test_a_difference_with_an_unpriced_side_is_unknown(unpriced: Statement, mixed: Statement):
    """Nothing is subtracted from what nobody knows; the hours still compare."""
    (paid,) = (row for row in comparison.compare(unpriced, mixed) if row.key == "paid")
    assert (paid.before.value, paid.after.value) == (None, 96_000_000)
    assert paid.after.is_lower_bound
    assert paid.change.value is None
    changes = difference.difference(unpriced.total(), mixed.total())
    held = [change for change in changes if change.before_milli_ms]
    assert held
    assert all(change.usd_micro is None and not change.milli_ms for change in held)


def test_moments_say_that_a_price_is_unknown():
    """`pending` and `fleet` know how much is free, and not what that costs."""
    world = state_after(history())
    board = explain.board(world, Policy())
    assert board.free_milli == 32_000
    assert board.free_usd_micro_per_hour is None
    assert "price unknown" in board.words
    gaps = [row.seam_usd_micro_per_hour for row in inventory.contracts(world)]
    assert gaps == [None, None]  # no dollars are shown of what nobody said a price of


def test_old_contracts_and_unknown_prices_are_read():
    """A contract of an older journal has no source of its price; -1 is no price of -1 dollar."""
    old = {"name": "c", "pool": "p", "kind": "H100", "count": 8, "usd_micro_per_hour": 2_000_000,
           "node": {"devices": 8, "cpu_milli": 0, "memory_mib": 0}}  # fmt: skip
    assert not msgspec.convert(old, Contract).price_source
    without = msgspec.convert(old | {"usd_micro_per_hour": UNPRICED}, Contract)
    assert (without.is_priced, without.rate_usd_micro) == (False, 0)
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(old | {"usd_micro_per_hour": -2}, Contract)


def test_one_text_for_dollars_or_unknown():
    """Dollars, that they are unknown, or the hours instead."""
    assert (dollars_text(None), dollars_text(0)) == ("unknown", "$0.00")
    assert cost_text(None, 1500 * HOUR_MS) == "1.5 GPU-hours"
    assert cost_text(2_000_000, 1500 * HOUR_MS) == "$2.00"
