"""The Python API: what the command line does, as functions.

>>> from tidemill import api
>>> run = api.simulate(api.load_spec("fleet.toml"))
>>> run.statement.total().paid_milli_ms

Everything here opens, runs and closes; the rooms below do the work and know nothing of files.
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from tidemill.journal import MEMORY, Journal, open_journal
from tidemill.journal.moments import COUNTED, Calendar
from tidemill.journal.replay import rebuild
from tidemill.model.errors import SpecError
from tidemill.model.events import Event
from tidemill.model.measures import DAY_MS, FOREVER_MS, HOUR_MS
from tidemill.model.policy import Policy
from tidemill.model.world import World

if TYPE_CHECKING:
    from tidemill.engine.loop import Backend
    from tidemill.ledger.lending import Lent
    from tidemill.ledger.statement import Statement
    from tidemill.twin.spec_tables import Spec

Progress = Callable[[int, int], None]
"""Called now and then with how much is done, and of how much."""

TWIN_BEATS_PER_COMMIT = 2_000  # a twin can be run again; a live backend commits every beat
BINS_AT_MOST = 400


@dataclass(frozen=True)
class Run:
    """A finished run: where it is kept, the World at its end, and its ledger."""

    where: str
    world: World
    policy: Policy
    statement: "Statement"


def load_spec(path: str | Path) -> "Spec":
    """Read a fleet and its work from a TOML file."""
    from tidemill.twin import spec

    return spec.load(path)


def demo_spec() -> "Spec":
    """The fleet that ships with Tidemill."""
    from tidemill.twin import spec

    return spec.demo()


def simulate(
    spec: "Spec",
    journal: str = MEMORY,
    on_progress: Progress | None = None,
    *,
    weighs_mix: bool = False,
) -> Run:
    """Run a spec in the twin, write its journal, and return what came of it."""
    from tidemill.twin import fleet
    from tidemill.twin.backend import Twin

    horizon_ms = int(spec.twin.horizon)
    return run(
        Twin.from_spec(spec),
        spec.policy,
        journal=journal,
        name=spec.twin.name,
        end_ms=horizon_ms,
        on_progress=on_progress,
        weighs_mix=weighs_mix,
        calendar=fleet.calendar(spec),
    )


def run(  # noqa: PLR0913 - named, and each of them the caller's to choose
    backend: "Backend",
    policy: Policy,
    *,
    journal: str = MEMORY,
    name: str = "run",
    end_ms: int = FOREVER_MS,
    on_progress: Progress | None = None,
    weighs_mix: bool = False,
    calendar: Calendar = COUNTED,
) -> Run:
    """Let any backend beat to the end of its story, with the ledger reading along.

    ``weighs_mix``: the ledger also says what arrivals could have used of what was free.
    ``calendar``: when the story begins, if it has dates.
    """
    from tidemill.engine.loop import Loop
    from tidemill.ledger.reader import Ledger
    from tidemill.ledger.spans import Window
    from tidemill.ledger.statement import Statement

    refuse_existing(journal)
    world = World()
    window = Window(0, end_ms, nice_bin_ms(end_ms))
    ledger = Ledger(policy, window, weighs_mix)
    with open_journal(journal, create=True) as keeper:
        keeper.set_meta("name", name)
        for key, value in calendar.facts().items():
            keeper.set_meta(key, value)
        keeper.set_meta("policy", msgspec.json.encode(policy).decode())
        loop = Loop(world, policy, backend, keeper, [ledger], TWIN_BEATS_PER_COMMIT)
        loop.run(on_beat=_every(100, on_progress, end_ms))
        keeper.save_snapshot(world)
    return Run(journal, world, policy, Statement(ledger, calendar))


def refuse_existing(journal: str) -> None:
    """A run writes a journal of its own; it never appends to that of another run."""
    if journal != MEMORY and os.path.lexists(journal):
        raise SpecError(
            f"`{journal}` exists already; a run begins a journal of its own",
            hint="choose another path with --journal, or replace the file with --force",
        )


def forget_run(journal: str, name: str | None = None, *, is_forced: bool = False) -> None:
    """Remove the journal of an earlier run of this name and nothing else; other files are refused.

    ``is_forced``: whatever stands there goes, unless somebody is writing it.
    """
    from tidemill.journal.forgetting import forget

    if journal != MEMORY:
        forget(Path(journal), name, is_forced=is_forced)


def open_world(journal: str, at_ms: int | None = None) -> tuple[World, Policy]:
    """The World a journal leads to (at its end, or at a moment), and the policy it was run with."""
    with open_journal(journal) as keeper:
        return rebuild(keeper, up_to_ms=at_ms), policy_of(keeper)


def read_statement(
    journal: str,
    *,
    start_ms: int = 0,
    end_ms: int = FOREVER_MS,
    bin_ms: int | None = None,
    on_progress: Progress | None = None,
) -> "Statement":
    """The ledger of a journal for any window."""
    from tidemill.ledger.reader import Ledger
    from tidemill.ledger.spans import Window
    from tidemill.ledger.statement import Statement

    with open_journal(journal) as keeper:
        policy = policy_of(keeper)
        width = bin_ms or nice_bin_ms(min(end_ms, last_ms(keeper)) - start_ms)
        ledger = Ledger(policy, Window(start_ms, end_ms, width), weighs_mix=True)
        return Statement(ledger.read(_watched(keeper, on_progress)), Calendar.of(keeper.facts()))


def read_lending(
    journal: str,
    *,
    start_ms: int = 0,
    end_ms: int = FOREVER_MS,
    on_progress: Progress | None = None,
) -> "Lent":
    """Who lent what to whom in a journal, for any window."""
    from tidemill.ledger.lending import Lending
    from tidemill.ledger.spans import Window

    with open_journal(journal) as keeper:
        return Lending(Window(start_ms, end_ms)).read(_watched(keeper, on_progress)).lent()


def calendar_of(journal: str) -> Calendar:
    """When a journal begins, in dates if it says so: how its moments are written and read."""
    with open_journal(journal) as keeper:
        return Calendar.of(keeper.facts())


def policy_of(journal: Journal) -> Policy:
    """The policy a journal was written under; the default one if it does not say."""
    text = journal.meta("policy")
    return msgspec.json.decode(text, type=Policy) if text else Policy()


def last_ms(journal: Journal) -> int:
    """The moment of the last event of a journal."""
    count = len(journal)
    return next((event.at_ms for event in journal.read(count - 1)), 0) if count else 0


def nice_bin_ms(length_ms: int) -> int:
    """A round width that divides a window into some hundreds of bins."""
    if length_ms <= 0 or length_ms >= FOREVER_MS:
        return DAY_MS
    for width in (HOUR_MS, 2 * HOUR_MS, 6 * HOUR_MS, DAY_MS):
        if length_ms // width <= BINS_AT_MOST:
            return width
    return -(-length_ms // BINS_AT_MOST // DAY_MS) * DAY_MS


def _every(beats: int, on_progress: Progress | None, end_ms: int) -> Callable[[int], None] | None:
    if on_progress is None:
        return None
    count = 0

    def on_beat(at_ms: int) -> None:
        nonlocal count
        count += 1
        if count % beats == 0:
            on_progress(at_ms, end_ms)

    return on_beat


def _watched(journal: Journal, on_progress: Progress | None) -> Iterator[Event]:
    total = len(journal)
    for done, event in enumerate(journal.read()):
        if on_progress is not None and done % 5_000 == 0:
            on_progress(done, total)
        yield event
