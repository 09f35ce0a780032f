"""A fix: who changes what, in words and as edits of a spec, what it wins and what it costs."""

from typing import NamedTuple

from msgspec import Struct

Value = str | int | bool
MOST_NAMED = 10
"""Of those whom a fix touches, how many are named where it is shown: it may be a million jobs."""
MOST_TOLD = 1_000
"""Of those whom advice touches, how many it knows by name."""


class Edit(Struct, frozen=True):
    """One line of a spec to change: ``contract[h100].count = 640``."""

    table: str
    """``contract``, ``team``, ``workload``, ``job``, or ``policy``, of which there is only one."""
    name: str
    field: str
    """The name of the field; ``checkpoint.every`` is a field of an inline table."""
    value: Value
    was: Value | None = None
    """What it is now; None where it is not set, or not known."""

    @property
    def place(self) -> tuple[str, str, str]:
        """Which line it is."""
        return self.table, self.name, self.field

    @property
    def text(self) -> str:
        """The line as people type it."""
        place = f"{self.table}[{self.name}]" if self.name else self.table
        return f"{place}.{self.field} = {toml(self.value)}"


class Fix(NamedTuple):
    """What to do about a leak, for whom, and what is known of its worth before it is replayed."""

    words: str
    rule: str
    """How the win and the price were reckoned."""
    who: tuple[str, ...]
    """Exactly those whom it touches: ``contract `a```, ``workload `b` of team `c```.

    Of many whom advice touches, the dearest.
    """
    evidence: str
    """What they have to do with the leak, in numbers."""
    touches_usd_micro: int | None
    """What of the leak is theirs: no fix wins more of it. None: nobody said a price."""
    edits: tuple[Edit, ...] = ()
    """The same as ``words`` for a spec; empty for advice that only people can follow."""
    saves_milli_ms: int = 0
    """Accelerator time that it gives back."""
    saves_usd_micro: int | None = None
    """Dollars of the window that need not be paid any more; None: not known before it is tried."""
    adds_useful_milli_ms: int = 0
    """Useful time that it adds to the window."""
    costs: str = ""
    """What it costs, in words: never empty where something is to be done."""
    price_usd_micro: int | None = None
    """The same in dollars of the window; None when unknown."""
    measure: str = ""
    """The command that measures what must be known first."""
    who_count: int = 0
    """How many advice touches; 0: those who are named."""

    @property
    def touches(self) -> int:
        """How many it touches."""
        return self.who_count or len(self.who)

    @property
    def is_predicted(self) -> bool:
        """Whether a win in dollars or useful time is claimed; everything else is advice."""
        return bool(self.saves_usd_micro or self.adds_useful_milli_ms)


def toml(value: Value) -> str:
    """A value as TOML has it."""
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else str(value)
