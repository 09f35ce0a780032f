"""Contract types: one row per type, and in it the one function that says what must be paid.

Nobody else asks for the name of a type. The fold writes what a row says into the columns of the
contract (``committed_milli``, ``is_elastic``); provisioning, the ledger and the explanations read
those, and the twin asks whether nodes may be reclaimed.
"""

from collections.abc import Callable
from typing import NamedTuple

from tidemill.model import plugins
from tidemill.model.errors import EventRefused
from tidemill.model.measures import WHOLE_MILLI
from tidemill.model.rows import Contract
from tidemill.model.states import Terms


class ContractType(NamedTuple):
    """What a contract of this type obliges to, and who decides when its nodes come and go."""

    committed: Callable[[Contract], int]
    """Accelerators that are paid for while the contract runs, launched or not: at most all."""
    is_elastic: bool
    """Nodes are launched when jobs need them and returned when idle; else all of them, at once."""
    is_reclaimable: bool = False
    """Whether the provider may take its nodes back at short notice."""


def _all(contract: Contract) -> int:
    return contract.count


def _none(contract: Contract) -> int:  # noqa: ARG001 - as every row's function is called
    return 0


OBSERVED = "observed"
"""Of nodes that somebody else launches and returns, while we look on: paid while they are there."""

UNFILLED = "unfilled"
"""What of a commitment no nodes are there for: as much as is told while it runs (an event)."""

TYPES: dict[str, ContractType] = {
    Terms.RESERVED.value: ContractType(_all, is_elastic=False),
    Terms.ON_DEMAND.value: ContractType(_none, is_elastic=True),
    Terms.SPOT.value: ContractType(_none, is_elastic=True, is_reclaimable=True),
    OBSERVED: ContractType(_none, is_elastic=False),
    UNFILLED: ContractType(_none, is_elastic=False),
}
"""By name, as a spec file and a journal write it under ``terms``."""

PAID = {
    Terms.RESERVED.value: "all the time",
    Terms.ON_DEMAND.value: "on demand",
    Terms.SPOT.value: "spot",
    OBSERVED: "while there",
    UNFILLED: "while not there",
}
"""How nodes are paid that somebody else launches, in words."""


def of(contract: Contract) -> ContractType:
    """The row of a contract's type; who names an unknown one is told which there are."""
    found = TYPES.get(contract.terms)
    if found is None:
        raise EventRefused(
            f"contract `{contract.name}` is of type `{contract.terms}`;"
            f" known are {', '.join(TYPES)}",
            hint=f"correct the name; {plugins.missing('contract type')}",
        )
    return found


def committed_milli(contract: Contract) -> int:
    """What is paid for while a contract runs, launched or not, in milli."""
    return WHOLE_MILLI * of(contract).committed(contract)
