"""Lending: who lent what to whom over a window, and what stood idle behind guarantees.

Reads a journal in batches, like the ledger. The loans of a kind (see ``loans``) change
only when somebody's use of it, a floor or what is free changes; between such moments they are
integrated as milli × ms, exactly. So the cost is what changes.
"""

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple, Self

from tidemill.core import replay
from tidemill.engine.fold.batch import Folding
from tidemill.ledger import loans
from tidemill.ledger.span_binning import Window
from tidemill.model.batch import Batch, Dictionary
from tidemill.model.batch.convert import of_events
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
    """Reads a journal from its first event on."""

    def __init__(self, window: Window | None = None) -> None:
        self.window = window or Window()
        self.now_ms = 0
        self.world = World()
        self._dictionary = Dictionary()
        self._states: dict[int, _State] = {}
        self._lent: Counter[tuple[int, int, int]] = Counter()
        self._unowned: Counter[tuple[int, int]] = Counter()
        self._kept: Counter[tuple[int, int]] = Counter()
        self._unasked: Counter[tuple[int, int]] = Counter()

    def begin(self, world: World) -> None:
        """Begin with a cluster state that earlier events led to."""
        self.world = world
        self.look()

    def read(self, events: Iterable[Event]) -> Self:
        """Read these events, after all that were read before."""
        self.read_batch(of_events(list(events), self._dictionary))
        return self

    def read_batch(self, batch: Batch) -> None:
        """Read a batch of events, after all that were read before."""
        folding = Folding(self.world, batch)
        while not folding.is_over:
            if not folding.plain(replay.replay_use):
                folding.single()
            self.look()

    def look(self) -> None:
        """Count from now on as the cluster state is now."""
        self.now_ms = self.world.now_ms
        for k in range(len(self.world.kinds)):
            self._look(k)

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
