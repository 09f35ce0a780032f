"""Contract types: the rows, and what is refused."""

import pytest

from tests.builders import contract, fleet
from tidemill.engine.fold.one_event import fold
from tidemill.model import events as ev
from tidemill.model.errors import EventRefused
from tidemill.model.states import Terms
from tidemill.model.world import World
from tidemill.reservation import types


def test_every_word_for_terms_has_a_row():
    """What a spec may say under ``terms`` has a row; so has what was observed, or is not there."""
    assert list(types.TYPES) == [*(word.value for word in Terms), types.OBSERVED, types.UNFILLED]


@pytest.mark.parametrize(
    ("terms", "committed", "is_elastic"),
    [(Terms.RESERVED, 16_000, 0), (Terms.ON_DEMAND, 0, 1), (Terms.SPOT, 0, 1)],
)
def test_the_columns_say_what_the_row_says(terms: Terms, committed: int, is_elastic: int):
    """All of a reserved contract is paid for; of the others, what is launched."""
    contracts = fleet(contract(gpus=16, terms=terms)).contracts
    assert (contracts.committed_milli[0], contracts.is_elastic[0]) == (committed, is_elastic)


def test_an_unknown_type_is_refused_before_anything_is_written():
    """A journal that names a type which nobody added is refused with the types that there are."""
    world = World()
    with pytest.raises(EventRefused, match="type `gift`; known are reserved, on_demand, spot"):
        fold(world, ev.ContractSigned(0, contract(terms="gift")))
    assert world.contract_count == 0
    assert not world.kinds
