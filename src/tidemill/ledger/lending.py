"""Lending: who lent what to whom over a window, and what stood idle behind guarantees.

Reads along with a loop, or a journal, like the ledger. The loans of a kind (see ``loans``) change
only when somebody's use of it, a floor or what is free changes; between such moments they are
integrated as milli × ms, exactly. So the cost is what changes.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Self

from tidemill.engine.fold import fold
from tidemill.ledger import loans
from tidemill.ledger.cut import Window
from tidemill.model.events import Event
from tidemill.model.measures import FOREVER_MS
from tidemill.model.world import World


class Lent(NamedTuple):
    """Milli × ms over a window; nothing that is zero."""

    lent: dict[tuple[int, int, int], int]
    """By kind, lender and borrower."""
    unowned: dict[tuple[int, int], int]
    """By kind and borrower: borrowed, and covered by no floor."""
    kept: dict[tuple[int, int], int]
    """By kind and owner: floor unused, and kept from others by a lending limit."""
    unasked: dict[tuple[int, int], int]
    """By kind and owner: floor unused that could have been lent, and was not."""


class _State(NamedTuple):
    """What the loans of a kind follow from, and since when it is so."""

    seen: tuple[int, bytes, int]
    loans: loans.Loans
    since_ms: int


class Lending:
    """Reads along with a loop (``before``/``after``), or through a journal (``read``)."""

    def __init__(self, window: Window | None = None) -> None:
        self.window = window or Window()
        self.now_ms = 0
        self.world = World()
        self._states: dict[int, _State] = {}
        self._lent: Counter[tuple[int, int, int]] = Counter()
        self._unowned: Counter[tuple[int, int]] = Counter()
        self._kept: Counter[tuple[int, int]] = Counter()
        self._unasked: Counter[tuple[int, int]] = Counter()

    def read(self, events: Iterable[Event]) -> Self:
        """Fold a journal into a World of its own, reading along."""
        for event in events:
            self.before(event.at_ms)
            self.after(self.world, fold(self.world, event))
        return self

    def before(self, at_ms: int) -> None:
        """Time goes on to this moment; nothing has changed yet."""
        if at_ms <= self.now_ms:
            return
        for k in range(len(self.world.kinds)):
            self._look(k)
        self.now_ms = at_ms

    def after(self, world: World, touched: Sequence[int]) -> None:  # noqa: ARG002 - a Reader's
        """An event was folded; what changed is seen when time goes on."""
        if world is not self.world:
            assert world.seq <= 1, "lending is read from the first event of a journal"
            self.world = world

    def lent(self) -> Lent:
        """The sums up to now."""
        for k, state in self._states.items():
            self._add(k, state)
            self._states[k] = state._replace(since_ms=self.now_ms)
        pairs = {key: n for key, n in sorted(self._lent.items()) if n}
        return Lent(pairs, *(_sorted(s) for s in (self._unowned, self._kept, self._unasked)))

    def _look(self, k: int) -> None:
        """Begin anew where the loans of a kind may be others than they were."""
        world, state = self.world, self._states.get(k)
        used = world.used[:, k]
        seen = (world.share_changes, used.tobytes(), world.kind_free_milli.item(k))
        if state is not None:
            if state.seen == seen:
                return
            self._add(k, state)
        floor = world.floor[:, k].tolist()
        found = loans.loans(world.tree, floor, self._limits(k), used.tolist())
        self._states[k] = _State(seen, loans.within(found, seen[2]), self.now_ms)

    def _limits(self, k: int) -> list[int]:
        kind = self.world.kinds[k]
        return [
            next((share.lend_milli for share in row.shares if share.kind == kind), FOREVER_MS)
            for row in self.world.queue_rows
        ]

    def _add(self, k: int, state: _State) -> None:
        start = max(state.since_ms, self.window.start_ms)
        length = min(self.now_ms, self.window.end_ms) - start
        if length <= 0:
            return
        for (lender, borrower), milli in state.loans.lent.items():
            self._lent[k, lender, borrower] += milli * length
        for sums, part in (
            (self._unowned, state.loans.unowned),
            (self._kept, state.loans.kept),
            (self._unasked, state.loans.unasked),
        ):
            for q, milli in part.items():
                sums[k, q] += milli * length


def _sorted(sums: Counter[tuple[int, int]]) -> dict[tuple[int, int], int]:
    return {key: n for key, n in sorted(sums.items()) if n}
