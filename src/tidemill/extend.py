"""Extending Tidemill: a queueing order, a placement score, a contract type or a ledger bucket.

Each is one row in a table that the rooms below read, and one function. A plug-in is a module that
adds its rows when it is imported; ``load_installed`` imports those that are installed (the
entry-point group ``tidemill.plugins``), as every command does.

>>> from tidemill.extend import add_order
>>> add_order("widest", lambda job, policy: -job.accelerator_milli)
"""

import operator
from collections.abc import Callable, Container
from importlib.metadata import EntryPoint, entry_points
from typing import NoReturn, SupportsIndex

import numpy as np

from tidemill.ledger import buckets
from tidemill.ledger.buckets import Divide
from tidemill.ledger.rows import LedgerRows
from tidemill.model import names, plugins
from tidemill.model.errors import SpecError
from tidemill.model.orders import ORDERS, JobFacts, QueueOrder, Rank
from tidemill.model.placements import PLACEMENTS, FreeNode, NodeScore
from tidemill.model.plugins import Plugin
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


SMALLEST, LARGEST = -(2**63), 2**63 - 1
"""What a number of a plug-in may be: the cycle compares them in columns of 64 bits."""


def add_order(name: str, rank: Rank) -> None:
    """Add an order for ``policy.order``: the job with the smallest rank goes first.

    The rank may read what ``JobFacts`` gives, which does not change while a job waits. Whoever
    waited for the policy's patience goes before all others, as in every order that reads run times.
    """
    _refuse("order", name, ORDERS)
    asked = _PluginFunction("order", name, rank)

    def whole_rank(job: JobFacts, policy: Policy) -> int:
        return asked.whole(lambda: rank(job, policy), f"job `{job.name}`")

    ORDERS[name] = QueueOrder(whole_rank)


def add_score(name: str, score: NodeScore) -> None:
    """Add a score for ``policy.placement``: the node with the highest score is taken.

    It chooses the node of a single replica and of each fraction; a gang of whole accelerators is
    put on the fewest nodes, and one with topology constraints where they say.
    """
    _refuse("placement", name, PLACEMENTS)
    asked = _PluginFunction("placement", name, score)

    def whole_score(node: FreeNode, request: Role) -> int:
        return asked.whole(lambda: score(node, request), f"node `{node.name}`")

    PLACEMENTS[name] = whole_score


def add_contract_type(name: str, row: ContractType) -> None:
    """Add a type for the ``terms`` of a contract."""
    _refuse("contract type", name, TYPES)
    asked = _PluginFunction("contract type", name, row.committed)

    def part(contract: Contract) -> int:
        about = f"contract `{contract.name}`"
        return asked.whole(lambda: row.committed(contract), about, least=0, most=contract.count)

    TYPES[name] = row._replace(committed=part)


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
    asked = _PluginFunction("bucket", key, part)

    def parts(world: World, rows: LedgerRows) -> I64:
        about = f"{len(rows.milli_ms):,} rows of `{part_of}`"
        return asked.whole_each(lambda: part(world, rows), about, len(rows.milli_ms))

    buckets.add(key, title, part_of, parts)


def load_installed() -> None:
    """Import every plug-in that is installed, in the order of their names."""
    for point in sorted(entry_points(group=plugins.GROUP), key=lambda point: point.name):
        try:
            point.load()
            plugins.LOADED.append(_plugin(point))
        except Exception as error:
            raise SpecError(
                f"the plug-in {_plugin(point)} (`{point.value}`) cannot be loaded:"
                f" {type(error).__name__}: {error}",
                hint="repair it, or uninstall the package that brings it",
            ) from error


def _plugin(point: EntryPoint) -> Plugin:
    return Plugin(point.name, point.dist.name if point.dist is not None else "")


class _PluginFunction:
    """A plug-in's function: what it answers is used as it is, or refused with its name."""

    def __init__(self, what: str, name: str, function: Callable[..., object]) -> None:
        module = getattr(function, "__module__", "") or "unknown"
        self._words = f"the {what} `{name}` of the plug-in in module `{module}`"

    def whole(
        self, ask: Callable[[], object], about: str, *, least: int = SMALLEST, most: int = LARGEST
    ) -> int:
        """Its answer: a whole number in the range."""
        found = self._answer(ask, about)
        number = operator.index(found) if isinstance(found, SupportsIndex) else None
        if number is None or not least <= number <= most:
            self._refuse(about, f"gave {_shown(found)}", "a whole number", least, most)
        return number

    def whole_each(self, ask: Callable[[], object], about: str, count: int) -> I64:
        """Its answer: so many whole numbers."""
        found = self._answer(ask, about)
        try:
            numbers = np.asarray(found)
        except ValueError:  # rows of several lengths
            numbers = np.zeros(0)
        if numbers.shape != (count,) or not (numbers.dtype.kind in "iu" or not count):
            told = f"gave {type(found).__name__} of shape {numbers.shape} and type {numbers.dtype}"
            self._refuse(about, told, f"{count:,} whole numbers", 0, LARGEST)
        return numbers.astype(np.int64)

    def _answer(self, ask: Callable[[], object], about: str) -> object:
        try:
            return ask()
        except Exception as error:
            raise SpecError(
                f"{self._words} failed for {about}: {type(error).__name__}: {error}",
                hint=f"repair it (docs/guides/extend.md says what it may read), {_ELSE}",
            ) from error

    def _refuse(self, about: str, told: str, wanted: str, least: int, most: int) -> NoReturn:
        raise SpecError(
            f"{self._words} {told} for {about}; expected {wanted} from {least:,} to {most:,}",
            hint=f"let it return an `int` in that range (`//` divides without a fraction), {_ELSE}",
        )


_ELSE = "or uninstall its package"


def _shown(value: object) -> str:
    """A value and its type, short enough for a message."""
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - a number of too many digits, or a class of the plug-in's
        text = "what cannot be printed"
    return f"`{text if len(text) <= 60 else text[:57] + '...'}` ({type(value).__name__})"


def _refuse(what: str, name: str, known: Container[str]) -> None:
    """A row has a name of its own that can be written in a spec file."""
    if name in known:
        raise SpecError(f"`{name}` is the name of another {what}", hint="give yours another name")
    if fault := names.fault(name):
        raise SpecError(f"the name of a new {what}: {fault}", hint="give it another name")
