"""Who lent what to whom: worked examples, exact sums, and a naive second reckoning."""

import math
from fractions import Fraction
from random import Random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import beat, finish, fleet, job, pass_ms, queue, submit
from tests.engine.stories import played
from tests.ledger.lending_oracle import Naive
from tidemill.engine.fold.one_event import fold
from tidemill.ledger import lending_part
from tidemill.ledger.account import DENOMINATOR
from tidemill.ledger.document import document
from tidemill.ledger.lending import Lending
from tidemill.ledger.loans import Loans, loans, within
from tidemill.ledger.span_binning import Window
from tidemill.ledger.statement import read
from tidemill.model import events as ev
from tidemill.model.measures import FOREVER_MS, HOUR_MS
from tidemill.model.rows import Queue
from tidemill.model.tree import Tree, amounts, grown
from tidemill.model.world import World

KIND = {"H100": 0}


def divided(rows: list[Queue], **used: int) -> tuple[dict[str, int], Loans]:
    """The loans when teams use so much, and the pairs by name."""
    number = {row.name: q for q, row in enumerate(rows)}
    tree = grown(rows, number)
    use = [used.get(row.name, 0) for row in rows]
    for q in tree.upward:
        if len(tree.paths[q]) > 1:
            use[tree.paths[q][1]] += use[q]
    floor = amounts(rows, tree, KIND).floor[:, 0].tolist()
    found = loans(tree, floor, [row.shares[0].lend_milli for row in rows], use)
    pairs = {
        f"{rows[lender].name} to {rows[borrower].name}": milli
        for (lender, borrower), milli in found.lent.items()
    }
    return pairs, found


def test_what_is_borrowed_comes_from_unused_floors():
    """A team 4 above its floor borrows them from the one team that does not use its own."""
    pairs, found = divided([queue("a", floor=8), queue("b", floor=8)], a=12_000, b=2_000)
    assert pairs == {"b to a": 4_000}
    assert (found.unowned, found.unasked, found.kept) == ({}, {1: 2_000}, {})


def test_what_no_floor_covers_is_unowned():
    """Borrowed beyond all unused floors comes from capacity that nobody owns."""
    pairs, found = divided([queue("a"), queue("b", floor=4)], a=10_000)
    assert pairs == {"b to a": 4_000}
    assert found.unowned == {0: 6_000}


def test_a_lending_limit_keeps_the_rest():
    """Of eight unused only three are lent; five are idle behind the guarantee."""
    pairs, found = divided([queue("a"), queue("b", floor=8, lend=3)], a=10_000)
    assert pairs == {"b to a": 3_000}
    assert (found.kept, found.unowned) == ({1: 5_000}, {0: 7_000})


FAMILY = [
    queue("p", floor=10),
    queue("x", parent="p", floor=2),
    queue("y", parent="p", floor=4),
    queue("z", floor=8),
]


def test_the_nearest_floor_lends_first():
    """First what the parent is sure of beyond its children, then a sibling, then a cousin."""
    assert divided(FAMILY, x=5_000)[0] == {"p to x": 3_000}
    assert divided(FAMILY, x=8_000)[0] == {"p to x": 4_000, "y to x": 2_000}
    assert divided(FAMILY, x=15_000)[0] == {"p to x": 4_000, "y to x": 4_000, "z to x": 5_000}


def test_lenders_and_borrowers_share_in_proportion():
    """Six thousand lent by two to two: each gives and gets as its part of the whole."""
    rows = [queue("a"), queue("b"), queue("c", floor=8), queue("d", floor=4)]
    pairs, _ = divided(rows, a=4_000, b=2_000)
    assert pairs == {"c to a": 2_667, "c to b": 1_333, "d to a": 1_333, "d to b": 667}


def test_what_is_broken_is_not_idle():
    """Idle behind guarantees is at most what is free."""
    _, found = divided([queue("a", floor=8), queue("b", floor=4, lend=0)])
    assert within(found, 6_000) == found._replace(kept={1: 2_000}, unasked={0: 4_000})


@st.composite
def families(draw: st.DrawFn) -> tuple[list[Queue], list[int]]:
    """A random tree, and what its leaves use."""
    some = st.sampled_from([0, 1, 3, 7])
    rows: list[Queue] = []
    for i in range(draw(st.integers(1, 7))):
        parent = draw(st.sampled_from(["", *(row.name for row in rows)]))
        lend = draw(st.sampled_from([None, None, 0, 1, 2]))
        rows.append(queue(str(i), parent=parent, floor=draw(some), lend=lend))
    inner = {row.parent for row in rows}
    use = [0 if row.name in inner else draw(st.integers(0, 9_999)) for row in rows]
    return rows, use


@given(families())
@settings(max_examples=200)
def test_everything_borrowed_is_lent_or_unowned(family: tuple[list[Queue], list[int]]):
    """For each borrower, and for each owner, the parts add up; nothing is negative."""
    rows, use = family
    names = [row.name for row in rows]
    _, found = divided(rows, **dict(zip(names, use, strict=True)))
    assert all(milli > 0 for part in found for milli in part.values())
    tree = grown(rows, {name: q for q, name in enumerate(names)})
    floor = amounts(rows, tree, KIND).floor[:, 0].tolist()
    for q, row in enumerate(rows):
        children = [c for c in range(len(rows)) if rows[c].parent == row.name]
        over = 0 if children else max(0, use[q] - floor[q])
        taken = sum(milli for (_, b), milli in found.lent.items() if b == q)
        assert taken + found.unowned.get(q, 0) == over
        own = floor[q] - (sum(floor[c] for c in children) if children else use[q])
        given = sum(milli for (a, _), milli in found.lent.items() if a == q)
        assert given + found.kept.get(q, 0) + found.unasked.get(q, 0) == max(0, own)


@pytest.mark.parametrize("source", ["stage", "twin"])
def test_the_naive_reckoning_agrees(source: str):
    """On stories with trees and faults, sums by kind are those of the naive reckoning, exactly."""
    lent = 0
    for seed in range(25):
        events = list(played(seed, source).kept)
        found, naive = Lending().read(events).lent(), Naive(events)
        for k in range(len(naive.world.kinds)):
            borrowed = _of(found.lent, k) + _of(found.unowned, k)
            assert _of(found.lent, k) == naive.lent[k]
            assert borrowed == naive.borrowed[k]
            assert _of(found.kept, k) + _of(found.unasked, k) == naive.idle[k]
            assert _of(found.kept, k) >= naive.kept[k]
            lent += naive.lent[k]
    assert lent > 0, "nobody lends: this proves nothing"


def _of(sums: dict[tuple[int, int, int], int] | dict[tuple[int, int], int], k: int) -> int:
    return sum(n for key, n in sums.items() if key[0] == k)


def test_reading_along_is_reading_afterwards():
    """Asked in the middle, or cut into windows, the sums are the same."""
    for seed in range(6):
        events = list(played(seed).kept)
        whole = Lending().read(events).lent()
        halfway = Lending()
        for i, event in enumerate(events):
            halfway.read([event])
            if i % 7 == 0:
                halfway.lent()
        assert halfway.lent() == whole
        cut = Random(seed).randrange(events[-1].at_ms)
        parts = [
            Lending(Window(*bounds)).read(events).lent() for bounds in ((0, cut), (cut, FOREVER_MS))
        ]
        for name, sums in whole._asdict().items():
            both = {key for part in parts for key in getattr(part, name)}
            added = {key: sum(getattr(part, name).get(key, 0) for part in parts) for key in both}
            assert added == sums


def test_a_loan_lasts_as_long_as_it_lasts():
    """Eight borrowed for two hours, then four for one: twenty accelerator-hours."""
    lending = Lending()
    world = fleet(nodes=2, teams=[queue("a"), queue("b", floor=16)])
    reader = _Follower(lending, world)
    submit(world, job("long", gpus=4), job("short", gpus=4))
    beat(world)
    reader.follow()
    pass_ms(world, 2 * HOUR_MS)
    reader.follow()
    finish(world, "short")
    reader.follow()
    pass_ms(world, HOUR_MS)
    reader.follow()
    assert lending.lent().lent == {(0, 1, 0): 20_000 * HOUR_MS}
    assert lending.lent().unasked == {(0, 1): (2 * 8_000 + 12_000) * HOUR_MS}


def test_dollars_are_those_of_the_kind_and_add_up():
    """The parts of a kind add up to its time at what it cost on average, to the micro-dollar."""
    for seed in range(4):
        events = list(played(seed).kept)
        statement = read(events)
        lent = Lending().read(events).lent()
        part = lending_part.part(statement, lent)
        for kind, account in statement.by("kind").items():
            loans_of = [loan for loan in part.loans if loan.kind == kind]
            milli_ms = sum(loan.milli_ms for loan in loans_of)
            exact = Fraction(milli_ms * account.paid_money, account.paid_milli_ms * DENOMINATOR)
            assert sum(loan.usd_micro or 0 for loan in loans_of) == math.floor(
                exact + Fraction(1, 2)
            )
            k = statement.world.kind_number[kind]
            assert milli_ms == _of(lent.lent, k) + _of(lent.unowned, k)
        kept = sum(row.kept_milli_ms for row in part.idle)
        assert kept == sum(lent.kept.values())
        assert document(statement, lending=part).lending == part
        assert "lending" not in msgspec.to_builtins(document(statement))


class _Follower:
    """Shows a World that a test changes to a reader, from its first event."""

    def __init__(self, lending: Lending, world: World) -> None:
        self.lending, self.world = lending, world
        lending.world = world

    def follow(self) -> None:
        self.lending.look()


def test_an_empty_tree_lends_nothing():
    """A World without teams has nothing to say."""
    assert loans(Tree(), [], [], []) == Loans({}, {}, {}, {})
    world = World()
    fold(world, ev.Woke(5))
    assert Lending().read([ev.Woke(5)]).lent().lent == {}
