"""Extending Tidemill: a queueing order, a placement score, a contract type or a ledger bucket.

Each is one row in a table that the rooms below read, and one function. A plug-in is a module that
adds its rows when it is imported; ``load_installed`` imports those that are installed (the
entry-point group ``tidemill.plugins``), as every command does.

>>> from tidemill.extend import add_order
>>> add_order("widest", lambda job, policy: -job.accelerator_milli)
"""

from collections.abc import Container
from importlib.metadata import entry_points

from tidemill.ledger import buckets
from tidemill.ledger.buckets import Divide
from tidemill.ledger.rows import LedgerRows
from tidemill.model import names
from tidemill.model.errors import SpecError
from tidemill.model.orders import ORDERS, JobFacts, QueueOrder, Rank
from tidemill.model.placements import PLACEMENTS, FreeNode, NodeScore
from tidemill.model.policy import Policy
from tidemill.model.rows import Contract, Role
from tidemill.model.states import JobClass
from tidemill.model.tables import I64
from tidemill.model.world import World
from tidemill.reservation.types import TYPES, ContractType

__all__ = [
    "I64",
    "Contract",
    "ContractType",
    "FreeNode",
    "JobClass",
    "JobFacts",
    "LedgerRows",
    "Policy",
    "Role",
    "World",
    "add_bucket",
    "add_contract_type",
    "add_order",
    "add_score",
    "load_installed",
]


LOADED: list[str] = []
"""Installed plug-ins that this process loaded: a process that works for it loads them too."""


def add_order(name: str, rank: Rank) -> None:
    """Add an order for ``policy.order``: the job with the smallest rank goes first.

    The rank may read what ``JobFacts`` gives, which does not change while a job waits. Whoever
    waited for the policy's patience goes before all others, as in every order that reads run times.
    """
    _refuse("order", name, ORDERS)
    ORDERS[name] = QueueOrder(rank)


def add_score(name: str, score: NodeScore) -> None:
    """Add a score for ``policy.placement``: the node with the highest score is taken.

    It chooses the node of a single replica and of each fraction; a gang of whole accelerators is
    put on the fewest nodes, and one with topology constraints where they say.
    """
    _refuse("placement", name, PLACEMENTS)
    PLACEMENTS[name] = score


def add_contract_type(name: str, row: ContractType) -> None:
    """Add a type for the ``terms`` of a contract."""
    _refuse("contract type", name, TYPES)
    TYPES[name] = row


def add_bucket(key: str, title: str, *, part_of: str, part: Divide) -> None:
    """Add a bucket of the ledger that is a part of another one, given by its key.

    ``part`` is handed the rows of that bucket and says how much of each goes into the new one.
    """
    _refuse("bucket", key, buckets.BY_KEY)
    if part_of not in buckets.BY_KEY:
        known = ", ".join(buckets.BY_KEY)
        raise SpecError(
            f"there is no bucket `{part_of}` to take a part of", hint=f"one of: {known}"
        )
    buckets.add(key, title, part_of, part)


def load_installed() -> None:
    """Import every plug-in that is installed, in the order of their names."""
    for point in sorted(entry_points(group=names.PLUGINS), key=lambda point: point.name):
        try:
            point.load()
            LOADED.append(point.name)
        except Exception as error:
            raise SpecError(
                f"the plug-in `{point.name}` (`{point.value}`) cannot be loaded:"
                f" {type(error).__name__}: {error}",
                hint="repair it, or uninstall the package that brings it",
            ) from error


def _refuse(what: str, name: str, known: Container[str]) -> None:
    """A row has a name of its own that can be written in a spec file."""
    if name in known:
        raise SpecError(f"`{name}` is the name of another {what}", hint="give yours another name")
    if fault := names.fault(name):
        raise SpecError(f"the name of a new {what}: {fault}", hint="give it another name")
