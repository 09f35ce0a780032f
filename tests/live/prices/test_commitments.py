"""Commitments with a count: what nodes do not fill is reserved and not launched, by contract."""

from pathlib import Path
from random import Random

import pytest

from tests.live.history.test_advance import Observer
from tests.live.history.test_history import EPOCH_MS, attempts, read
from tests.live.prices.test_prices import DAY_MS, HOUR_MS, USD, WINDOW, node
from tidemill.ledger import unknowns
from tidemill.ledger.buckets import Bucket
from tidemill.ledger.statement import Statement
from tidemill.live.history.advance import SourceAnswer
from tidemill.live.history.events import History, build
from tidemill.live.history.rows import SeenNode
from tidemill.live.prices import files, matching, rules
from tidemill.live.prices.rules import PricedFleet
from tidemill.model.errors import SpecError
from tidemill.model.measures import MILLI_MS_PER_UNIT_HOUR
from tidemill.reservation import capacity_gap

CHANGE = (EPOCH_MS + 4 * DAY_MS) // 1000
ONE_JOB = attempts({"gpus": 8, "nodes": ["n1"], "start_ms": 0, "end_ms": DAY_MS})


def fleet(folder: Path, text: str) -> PricedFleet:
    """Prices and commitments of a file."""
    path = folder / "prices.csv"
    path.write_text(text)
    found = files.read(path, "UTC")
    rule = matching.rule_of(found.lines, WINDOW, found.source, is_bill=found.is_bill)
    return PricedFleet(rules.first_of([rule]), found.commitments)


def told(books: Statement, name: str = "") -> tuple[float, int]:
    """Hours and micro-dollars of what is not launched, of all or of a contract."""
    account = books.by("contract")[name] if name else books.total()
    hours = account.milli_ms[Bucket.NOT_LAUNCHED] / MILLI_MS_PER_UNIT_HOUR
    return hours, account.usd_micro()[Bucket.NOT_LAUNCHED]


def test_what_nodes_do_not_fill_is_reserved_and_not_launched(tmp_path: Path):
    """64 GPUs at $2 for four days, then 32 at $3; 16 are there: by hand, by contract, exactly."""
    price_of = fleet(
        tmp_path,
        "type,commitment,from,until,price,committed_gpus\n"
        f"h100,old,,{CHANGE},2,64\nh100,new,{CHANGE},,3,32\n",
    )
    books = read(build(ONE_JOB, [node("n1"), node("n2")], price_of, *WINDOW))
    assert told(books, "h100 (old), not launched") == (48 * 4 * 24, 48 * 4 * 24 * 2 * USD)
    assert told(books, "h100 (new), not launched") == (16 * 6 * 24, 16 * 6 * 24 * 3 * USD)
    total = books.total()
    assert total.paid_usd_micro == 24 * (64 * 4 * 2 + 32 * 6 * 3) * USD
    assert sum(total.milli_ms) == total.paid_milli_ms == 24 * (64 * 4 + 32 * 6) * 3_600_000_000
    assert Bucket.NOT_LAUNCHED not in unknowns.unknowns_of(books)


def test_nodes_of_a_commitment_are_filled_by_machines_of_any_size(tmp_path: Path):
    """Ten p5.48xlarge are 80 GPUs; machines with other hosts are contracts of their own, and fill
    the same commitment.
    """
    price_of = fleet(
        tmp_path,
        "type,commitment,usd_per_instance_hour,committed_nodes\np5.48xlarge,block,40,10\n",
    )
    nodes = [node("n1", type="p5.48xlarge"), node("n2", type="p5.48xlarge")]
    nodes[1] = SeenNode(name="n2", gpus=8, gpu_type="h100", labels=nodes[1].labels, cpu_milli=9000)
    history = build(ONE_JOB, nodes, price_of, *WINDOW)
    assert len({row.name for row in history.contracts}) == 3
    books = read(history)
    assert told(books) == (64 * 240, 64 * 240 * 5 * USD)
    assert books.total().paid_usd_micro == 80 * 240 * 5 * USD


def test_a_commitment_of_which_nothing_is_there_is_on_the_books(tmp_path: Path):
    """The catalogue says which GPUs an instance type has that no node is of."""
    price_of = fleet(
        tmp_path, "type,commitment,rate,committed_nodes\nh100,,2,\np4d.24xlarge,old,1,2\n"
    )
    books = read(build(ONE_JOB, [node("n1")], price_of, *WINDOW))
    assert told(books, "p4d.24xlarge (old), not launched") == (16 * 240, 16 * 240 * USD)


def test_more_nodes_than_a_commitment_pays_for_leave_nothing(tmp_path: Path):
    """Eight are committed and sixteen are there: nothing is left, and all that is there is paid."""
    price_of = fleet(tmp_path, "type,commitment,rate,committed_gpus\nh100,small,2,8\n")
    books = read(build(ONE_JOB, [node("n1"), node("n2")], price_of, *WINDOW))
    assert told(books) == (0, 0)
    assert books.total().paid_usd_micro == 16 * 240 * 2 * USD
    assert Bucket.NOT_LAUNCHED not in unknowns.unknowns_of(books)


def test_without_a_count_it_is_unknown_as_before(tmp_path: Path):
    """A commitment that says no number leaves the line unknown; also where others say one."""
    for more in ("", "a100,counted,1,8\n"):
        header = "type,commitment,rate,committed_gpus\n"
        price_of = fleet(tmp_path, f"{header}h100,plan,2,\n{more}")
        books = read(build(ONE_JOB, [node("n1")], price_of, *WINDOW))
        is_told = Bucket.NOT_LAUNCHED not in unknowns.unknowns_of(books)
        assert is_told == bool(more)  # what there is of it is shown
        assert not unknowns.is_commitment_told(books.world)


def test_a_machine_that_is_bought_otherwise_for_a_time_does_not_fill_it(tmp_path: Path):
    """A line of one node goes before that of its type while it holds: then eight more are left."""
    price_of = fleet(
        tmp_path,
        "node,type,commitment,from,until,price,committed_gpus\n"
        f",h100,block,,,2,16\nn1,,on-demand,{CHANGE},{CHANGE + 86_400},4,\n",
    )
    books = read(build(ONE_JOB, [node("n1"), node("n2")], price_of, *WINDOW))
    assert told(books) == (8 * 24, 8 * 24 * 2 * USD)
    assert books.total().paid_usd_micro == (16 * 240 * 2 + 8 * 24 * 4) * USD


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("type,rate,committed_gpus\nh100,2,64\n", "under no commitment"),
        ("type,commitment,rate,committed_gpus\nh100,spot,2,64\n", "under no commitment"),
        ("node,commitment,rate,committed_gpus\nn1,plan,2,64\n", "and not of what"),
        ("type,commitment,rate,committed_gpus\nh100,plan,2,6.5\n", "no number of what is paid"),
        ("type,commitment,rate,committed_gpus\nh100,plan,2,-8\n", "no number of what is paid"),
        ("type,commitment,rate,committed_gpus\nh100,plan,2,many\n", "which is no number"),
        ("type,commitment,rate,committed_gpus,committed_nodes\nh100,plan,2,8,1\n", "one of nodes"),
    ],
)
def test_counts_that_mean_nothing_are_refused(tmp_path: Path, text: str, words: str):
    """A number without a commitment or a type, and what is no number."""
    with pytest.raises(SpecError, match=words):
        fleet(tmp_path, text)


def test_an_unknown_machine_type_is_said(tmp_path: Path):
    """Nobody knows how many GPUs a `bespoke` has: it is said, and not on the books."""
    price_of = fleet(tmp_path, "type,commitment,rate,committed_nodes\nbespoke,plan,2,4\n")
    history = build(ONE_JOB, [node("n1")], price_of, *WINDOW)
    assert any("type `bespoke` has: what of commitment `plan`" in note for note in history.notes)
    assert told(read(history)) == (0, 0)


HEAD = (
    "ChargeCategory,ChargePeriodStart,ChargePeriodEnd,EffectiveCost,PricingQuantity,PricingUnit,"
    "CommitmentDiscountId,CommitmentDiscountStatus,ResourceId,x_InstanceType\n"
)


def charge(hour: int, usd: float | str, hours: float, status: str, machine: str, kind: str) -> str:
    """A line of a bill by the hour, of the day of June 1."""
    start, end = (f"2026-06-0{1 + h // 24}T{h % 24:02}:00:00Z" for h in (hour, hour + 1))
    return f"Usage,{start},{end},{usd},{hours},Hours,plan-1,{status},{machine},{kind}\n"


def test_used_and_unused_of_a_bill_are_what_was_paid(tmp_path: Path):
    """A plan of three machines at $31.123456 an hour, of which one to three are there hour by hour:
    the books have what the bill says, hour by hour and in all, to the micro-dollar.
    """
    luck, text, usd, day_ms = Random(7), HEAD, 31.123456, 1_780_272_000_000
    there = [luck.randint(1, 3) for _ in range(24)]
    lives = [[hour for hour in range(24) if there[hour] > i] for i in range(3)]
    for hour, machines in enumerate(there):
        for i in range(machines):
            text += charge(hour, usd, 1, "Used", f"i-{i}", "p5.48xlarge")
        if idle := 3 - machines:
            text += charge(hour, round(idle * usd, 6), idle, "Unused", "", "p5.48xlarge")
    text += charge(3, 5, 10, "Unused", "", "m5.large")
    price_of = fleet(tmp_path, text)
    nodes = [
        SeenNode(name=f"i-{i}-{hour}", gpus=8, gpu_type="h100", since_ms=day_ms + hour * HOUR_MS,
                 until_ms=day_ms + (hour + 1) * HOUR_MS,
                 labels=node(type="p5.48xlarge", id=f"aws:///x/i-{i}").labels)
        for i in range(3) for hour in lives[i]
    ]  # fmt: skip
    start_ms = day_ms - EPOCH_MS
    rows = attempts({"gpus": 8, "nodes": ["i-0-0"], "submit_ms": start_ms, "start_ms": start_ms,
                     "end_ms": start_ms + HOUR_MS})  # fmt: skip
    history: History = build(rows, nodes, price_of, day_ms, day_ms + DAY_MS)
    books = read(history)
    assert books.total().paid_usd_micro == round(24 * 3 * usd * USD)
    assert books.total().paid_milli_ms == 24 * 24 * MILLI_MS_PER_UNIT_HOUR
    hours, dollars = told(books, "p5.48xlarge (plan-1), not launched")
    assert hours == 8 * (3 * 24 - sum(there))
    assert dollars == round((3 * 24 - sum(there)) * usd * USD)
    assert any("(`m5.large`), on no books: $5.00" in note for note in history.notes)


def test_unused_dollars_without_a_type_are_of_the_machines_that_used_the_rest(tmp_path: Path):
    """A savings plan bills dollars: at $40 an hour, $20 are half of a machine for an hour."""
    text = HEAD + charge(0, 40, 1, "Used", "i-1", "p5.48xlarge")
    text += charge(1, 20, 20, "Unused", "", "").replace("Hours", "USD")
    text += charge(1, 7, 7, "Unused", "", "").replace("Hours", "USD").replace("plan-1", "other")
    price_of = fleet(tmp_path, text)
    (one,) = price_of.commitments
    assert (one.type, one.machine_milli, one.billed_usd_micro) == ("p5.48xlarge", 500, 20 * USD)
    notes = files.read(tmp_path / "prices.csv", "UTC").notes
    assert any(note.endswith("1 ($7.00), on no books") for note in notes)


@pytest.mark.parametrize("seed", range(5))
def test_observers_tell_what_an_import_tells(tmp_path: Path, seed: int):
    """Looked on in parts, killed at any batch: the same hours and dollars to the millisecond."""
    luck = Random(seed)
    edge = (EPOCH_MS + luck.randrange(3, 9) * HOUR_MS) // 1000
    price_of = fleet(
        tmp_path,
        "type,commitment,from,until,price,committed_gpus\n"
        f"h100,old,,{edge},2,64\nh100,new,{edge},,3,32\n",
    )
    joined = EPOCH_MS + luck.randrange(1, 10) * HOUR_MS + 7
    nodes = [node("n1"), SeenNode(name="n2", gpus=8, gpu_type="h100", since_ms=joined)]
    end_ms = 12 * HOUR_MS
    rows = attempts({"gpus": 8, "nodes": ["n1"], "start_ms": 0, "end_ms": end_ms})
    whole = read(build(rows, nodes, price_of, EPOCH_MS, EPOCH_MS + end_ms))
    observer = Observer(price_of=price_of)
    while observer.world.now_ms < end_ms:
        until_ms = min(end_ms, observer.world.now_ms + luck.randrange(1, 4) * HOUR_MS + seed)
        now_ms = EPOCH_MS + until_ms
        shown = [one for one in nodes if (one.since_ms or 0) <= now_ms]
        is_over = until_ms == end_ms
        row = rows if is_over else rows.with_columns(end_ms=None, outcome=None)
        answer = SourceAnswer(row, shown, now_ms)
        observer.take(answer, now_ms, batches=luck.randrange(1, 4))
        observer.restart()
    assert told(observer.books()) == told(whole)
    assert observer.books().total().paid_usd_micro == whole.total().paid_usd_micro


def test_a_number_that_changes_is_told_from_then_on(tmp_path: Path):
    """An observer that is started again with 24 instead of 16 pays for the eight more from then."""
    header, observer = "type,commitment,rate,committed_gpus\n", Observer()
    rows = attempts({"gpus": 8, "nodes": ["n1"], "start_ms": 0})
    for hours, gpus in ((1, 16), (3, 24)):
        observer.price_of = fleet(tmp_path, f"{header}h100,plan,2,{gpus}\n")
        until_ms = EPOCH_MS + hours * HOUR_MS
        observer.take(SourceAnswer(rows, [node("n1")], until_ms), until_ms)
    assert told(observer.books()) == (8 * 1 + 16 * 2, (8 * 1 + 16 * 2) * 2 * USD)
    seams = {one.contract: one for one in capacity_gap.seams(observer.world)}
    assert seams["h100 (plan), not launched"].gap_usd_micro_per_hour == 16 * 2 * USD
