"""Prices that change: each hour costs what its price says, exactly, however time is cut.

The oracle reads the same story once for each stretch between two changes, with contracts that have
the price of that stretch and no other.
"""

from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.builders import contract
from tests.ledger.stories import STORIES, Story
from tidemill.engine.fold.one_event import fold_all
from tidemill.ledger import pricing
from tidemill.ledger.statement import read
from tidemill.model import events as ev
from tidemill.model.batch import Dictionary
from tidemill.model.batch.convert import of_events, to_events
from tidemill.model.errors import EventRefused
from tidemill.model.rows import UNPRICED, Contract, LaterPrice
from tidemill.model.world import World

PRICES = (UNPRICED, 0, 1, 999_983, 3_333_333)


def with_changes(events: Story, seed: int) -> Story:
    """The story with contracts whose prices change, also in the middle of what jobs do."""
    luck, last_ms = Random(seed), events[-1].at_ms

    def changed(event: ev.Event) -> ev.Event:
        if not isinstance(event, ev.ContractSigned) or luck.random() < 0.3:
            return event
        moments = sorted({event.at_ms + luck.randint(1, last_ms + 2) for _ in range(3)})
        later = tuple(LaterPrice(ms, luck.choice(PRICES), luck.choice("ab")) for ms in moments)
        return ev.ContractSigned(event.at_ms, replace(event.contract, later_prices=later))

    return [changed(event) for event in events]


def as_of(events: Story, at_ms: int) -> Story:
    """The story with contracts that cost at all times what they cost at a moment."""
    return [
        ev.ContractSigned(event.at_ms, event.contract.at(at_ms))
        if isinstance(event, ev.ContractSigned)
        else event
        for event in events
    ]


def edges(events: Story) -> list[int]:
    """When a price changes."""
    signed = [event.contract for event in events if isinstance(event, ev.ContractSigned)]
    return sorted({price.from_ms for row in signed for price in row.prices})


@given(STORIES, st.integers(0, 1_000), st.integers(1, 10**7))
def test_each_hour_costs_what_its_price_says(events: Story, seed: int, bin_ms: int):
    """Money by bucket and team is the sum of the stretches, each at its own price; hours stay."""
    story, end_ms = with_changes(events, seed), events[-1].at_ms + 1
    bin_ms = max(bin_ms, end_ms // 20 + 1)
    found, plain = read(story, bin_ms=bin_ms), read(events)
    assert found.total().milli_ms == plain.total().milli_ms
    money = [0] * len(plain.total().money)
    unpriced = [0] * len(money)
    teams: dict[str, int] = {}
    for start, end in pairwise((*(ms for ms in edges(story) if ms < end_ms), end_ms)):
        part = read(as_of(story, start), start, end)
        money = [a + b for a, b in zip(money, part.total().money, strict=True)]
        unpriced = [a + b for a, b in zip(unpriced, part.total().unpriced, strict=True)]
        for team, account in part.by("team").items():
            teams[team] = teams.get(team, 0) + account.paid_money
    assert list(found.total().money) == money
    assert list(found.total().unpriced) == unpriced
    by_team = found.by("team")
    assert {team: by_team[team].paid_money for team in by_team} == {
        team: usd for team, usd in teams.items() if team in by_team
    }
    by_source = pricing.sources(found)
    assert sum(by_source.values()) == found.total().paid_milli_ms - sum(unpriced)


@given(STORIES, st.integers(0, 1_000))
def test_columns_keep_later_prices(events: Story, seed: int):
    """Into a batch and back, all at once and event by event: the same story, the same dollars."""
    story = with_changes(events, seed)
    assert to_events(of_events(story, Dictionary())) == story
    both = [read(part).total() for part in (story, to_events(of_events(story, Dictionary())))]
    assert both[0] == both[1]


def test_later_prices_must_come_later():
    """In the order of time, and after the contract was signed."""
    for moments in ((5,), (20, 20), (30, 20)):
        later = tuple(LaterPrice(ms, 1) for ms in moments)
        signed = ev.ContractSigned(5, replace(contract(), later_prices=later))
        with pytest.raises(EventRefused, match="later prices"):
            fold_all(World(), [signed])


def test_a_contract_knows_what_it_costs_at_a_moment():
    """The first price from the beginning on, each later one from its moment on."""
    row: Contract = replace(contract(), later_prices=(LaterPrice(10, 7, "bill"),))
    assert row.at(9).usd_micro_per_hour == row.usd_micro_per_hour
    assert (row.at(10).usd_micro_per_hour, row.at(10).price_source) == (7, "bill")
    assert contract().at(10) == contract()
