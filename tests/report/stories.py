"""Small fleets with something in most buckets, run by the twin through the real loop."""

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from msgspec.structs import replace

from tidemill.engine.loop import Loop
from tidemill.ledger.reader import Ledger
from tidemill.ledger.spans import Window
from tidemill.ledger.statement import Statement
from tidemill.model.events import Event
from tidemill.model.measures import DAY_MS, HOUR_MS
from tidemill.model.policy import Policy
from tidemill.model.world import World
from tidemill.twin.backend import Twin
from tidemill.twin.spec import fleet_spec
from tidemill.twin.spec.tables import Spec
from tidemill.twin.spec.words import Span

HOSTILE = """<script>alert(1)</script>"'&`b`"""
"""A name that would run, break out of an attribute, or look like an id, if it could."""

SMALL = """
[twin]
name = "small"
seed = 5
horizon = "3d"

[policy]   # with these something is free at the end, and something of that is unusable
placement = "pack"
backfill = "none"

[[contract]]
name = "h100"
kind = "H100"
count = 64
usd_per_hour = 2.19
spares = 1

[[contract]]
name = "a100"
kind = "A100"
count = 32
usd_per_hour = 1.07

[[team]]
name = "core"
floor = { H100 = 32 }

[[team]]
name = "apps"

[[workload]]
name = "train"
team = "core"
users = ["ana", "bo"]
per_day = 60
sizes = { 8 = 0.6, 16 = 0.3, 32 = 0.1 }
run = { median = "2h", mean = "4h", longest = "20h" }
startup = "4m"
restart = "8m"
checkpoint = { every = "1h", cost = "40s" }
mfu = 0.38
host_stall = 0.07
link_stall = 0.11

[[workload]]
name = "probe"
team = "apps"
per_day = 150
sizes = { "0.5" = 0.3, 1 = 0.5, 3 = 0.2 }
run = { median = "40m", mean = "2h", longest = "20h" }

[[workload]]
name = "notes"
team = "apps"
class = "interactive"
per_day = 10
sizes = { 1 = 1.0 }
run = { median = "6h", mean = "12h", longest = "2d" }
active = { median = "1h", mean = "2h" }

[faults]
node_rate = 60.0
device_share = 0.3
"""


class Story(NamedTuple):
    """A finished run."""

    statement: Statement
    world: World
    policy: Policy


class _NoJournal:
    """Keeps nothing: a report needs no journal."""

    def append(self, events: Sequence[Event]) -> None:
        """Forget."""


def run(text: str, bin_ms: int = HOUR_MS) -> Story:
    """Run the text of a spec to its end, the ledger reading along."""
    return _run(fleet_spec.parse(text), bin_ms)


def _run(told: Spec, bin_ms: int) -> Story:
    window = Window(0, int(told.twin.horizon), bin_ms)
    world, ledger = World(), Ledger(told.policy, window, weighs_mix=True)
    Loop(world, told.policy, Twin.from_spec(told), _NoJournal(), [ledger], 1000).run()
    return Story(Statement(ledger), world, told.policy)


@cache
def small() -> Story:
    """Two kinds, two teams, three days, faults, idle notebooks, work of unknown efficiency."""
    return run(SMALL)


@cache
def demo() -> Story:
    """The first days of the fleet that ships with Tidemill."""
    told = fleet_spec.demo()
    few_days = replace(told.twin, horizon=Span(3 * DAY_MS))
    return _run(replace(told, twin=few_days), HOUR_MS)


@cache
def crowd(teams: int = 30) -> Story:
    """Many teams and contracts, each with one job that runs to the end; a large one waits."""
    head = '[twin]\nname = "crowd"\nhorizon = "6h"\n'
    large = f'at = "5h"\nwork = "1h"\naccelerators = {8 * teams}\n'
    each = (
        f'[[contract]]\nname = "c{i}"\nkind = "H100"\ncount = 8\nusd_per_hour = 1.{i:02d}\n'
        f'[[team]]\nname = "t{i}"\n'
        f'[[job]]\nname = "j{i}"\nteam = "t{i}"\nwork = "10h"\naccelerators = 7\n'
        for i in range(teams)
    )
    return run(head + "".join(each) + '[[job]]\nname = "large"\nteam = "t0"\n' + large)


@cache
def hostile() -> Story:
    """A fleet whose teams, contracts, kinds and jobs have names that no page may trust."""
    name = HOSTILE.replace('"', '\\"')
    return run(f"""
[twin]
name = "hostile"
horizon = "6h"
[[contract]]
name = "{name}"
kind = "{name}"
count = 8
usd_per_hour = 2.0
[[team]]
name = "{name}"
[[job]]
name = "{name}"
team = "{name}"
work = "3h"
accelerators = 8
copies = 3
""")


def nothing() -> Statement:
    """The statement of an empty journal."""
    return Statement(Ledger().read([]))
