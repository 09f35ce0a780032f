"""A spec file from a seed and a few knobs: something to run at once and to edit afterwards.

The fleet is sized as told, teams share it, each trains like one of the published clusters (its
preset is drawn from the seed), and the rates of arrival are solved for the load that was asked for.
"""

from typing import NamedTuple

from tidemill.model.errors import SpecError
from tidemill.model.measures import DAY_MS, WHOLE_MILLI
from tidemill.twin import presets
from tidemill.twin.mix import JobMix
from tidemill.twin.spec.tables import MAX_NODES
from tidemill.twin.streams import Streams

NODE = 8
LOAD = 0.8  # of what is paid for; above it queues grow by the week, below it there are hardly any
SERVING, NOTEBOOKS = 0.15, 0.05  # of the load; what is left trains
FLOORS = 0.6  # of the fleet is promised to teams, the rest is borrowed
NOTEBOOK_HOURS = 14.0  # accelerator-hours of one: a mean of 17 h on 0.82 of an accelerator
MAX_TEAMS, MAX_WEEKS = 200, 520
_PRESETS = ("philly", "helios", "seren")  # pai shares its GPUs, and kalos needs a thousand of them


class Team(NamedTuple):
    """A team, the cluster it is like, and how much of the fleet it keeps busy."""

    name: str
    preset: str
    accelerators: float


def describe(
    seed: int = 0, accelerators: int = 256, weeks: int = 2, teams: int = 3, load: float = LOAD
) -> str:
    """The text of a spec file."""
    _refuse_absurd(seed, accelerators, weeks, teams, load)
    luck = Streams(seed).of("describe")
    busy = accelerators * load / teams
    rows = [
        Team(f"team-{i}", _PRESETS[int(luck.integers(len(_PRESETS)))], busy)
        for i in range(1, teams + 1)
    ]
    floor = int(accelerators * FLOORS / teams)
    parts = [_head(seed, weeks), _contract(accelerators)]
    parts += [f'[[team]]\nname = "{row.name}"\nguaranteed = {{ H100 = {floor} }}\n' for row in rows]
    for row in rows:
        parts += _work(row, accelerators)
    return "\n".join([*parts, _FAULTS])


def _refuse_absurd(seed: int, accelerators: int, weeks: int, teams: int, load: float) -> None:
    for what, value, least, most in (
        ("seed", seed, 0, 2**53),
        ("accelerators", accelerators, NODE, MAX_NODES * NODE),
        ("weeks", weeks, 1, MAX_WEEKS),
        ("teams", teams, 1, MAX_TEAMS),
        ("load", load, 0.01, 10),
    ):
        if not least <= value <= most:
            raise SpecError(
                f"asked for {value} {what}; between {least:,} and {most:,} can be described",
                hint=f"choose {what} in that range",
            )
    if accelerators % NODE:
        raise SpecError(
            f"{accelerators} accelerators are not whole nodes of {NODE}",
            hint=f"{accelerators // NODE * NODE} would be",
        )


def _work(team: Team, accelerators: int) -> list[str]:
    """Services for a part of the load, notebooks for another, training for the rest."""
    services = max(0, round(team.accelerators * SERVING / 4))
    busy = team.accelerators - 4 * services
    notebooks_per_day = team.accelerators * NOTEBOOKS * 24 / NOTEBOOK_HOURS
    mix = presets.mix(team.preset)
    capped = JobMix(mix.sizes.capped(accelerators * WHOLE_MILLI // 2), mix.durations, mix.coupling)
    busy -= team.accelerators * NOTEBOOKS
    training_per_day = busy * WHOLE_MILLI * DAY_MS / capped.mean_milli_ms()
    parts = [_TRAINING.format(team=team.name, preset=team.preset, per_day=training_per_day)]
    parts.append(_NOTEBOOKS.format(team=team.name, per_day=notebooks_per_day))
    if services:
        parts.append(_SERVICES.format(team=team.name, copies=services))
    return parts


def _head(seed: int, weeks: int) -> str:
    return f"""\
# Written by `tidemill twin generate`. Everything here may be changed.

[twin]
name = "generated"
seed = {seed}
horizon = "{weeks}w"
"""


def _contract(accelerators: int) -> str:
    spares = accelerators // NODE // 64
    return f"""\
[[contract]]
name = "h100"
kind = "H100"
count = {accelerators}
usd_per_hour = 2.25
spares = {spares}
cpu_per_node = 192
memory_gib_per_node = 2048
"""


_TRAINING = """\
[[workload]]
name = "{team}-train"
team = "{team}"
per_day = {per_day:.1f}
preset = "{preset}"
rhythm = {{ swing = 0.6, peak_hour = 15, weekend = 0.5 }}
startup = "3m"
restart = "4m"
checkpoint = {{ every = "30m", cost = "30s" }}
cpu_per_accelerator = 12
memory_gib_per_accelerator = 128
mfu = 0.32
mfu_spread = 0.08
host_stall = 0.06
link_stall = 0.06
crash = 0.05
"""
_NOTEBOOKS = """\
[[workload]]
name = "{team}-notebook"
team = "{team}"
class = "interactive"
per_day = {per_day:.1f}
sizes = {{ "0.25" = 0.3, "0.5" = 0.2, 1 = 0.3, 2 = 0.2 }}
run = {{ median = "8h", mean = "17h", longest = "6d" }}
active = {{ median = "1h10m", mean = "2h", longest = "10h" }}
busy = 0.35
rhythm = {{ swing = 0.9, peak_hour = 12, weekend = 0.2 }}
priority = 30
startup = "1m"
"""
_SERVICES = """\
[[job]]
name = "{team}-serve"
team = "{team}"
class = "inference"
copies = {copies}
accelerators = 4
work = "10y"
priority = 80
preemptible = false
startup = "5m"
restart = "5m"
mfu = 0.15
tide = {{ low = 0.2, peak = 0.9, peak_hour = 15 }}
"""
_FAULTS = """\
[faults]
node_rate = 4.2
device_share = 0.27
repair = { median = "10h", mean = "30h", longest = "10d" }
"""
