"""Stragglers as tables and sentences: suspects with evidence, and what could not be judged."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rich.table import Table

from tidemill.cli import screen
from tidemill.journal.moments import Calendar
from tidemill.ledger.account import shown
from tidemill.live.measured.loops import Launch
from tidemill.live.measured.slow_devices import BIN_MS, DeviceStragglers
from tidemill.live.measured.stragglers import (
    NotJudged,
    SlowLaunch,
    Stragglers,
    Suspect,
    UnlikeLaunch,
)
from tidemill.model.measures import HOUR_MS, ONE_PPM, count_text, dollars_text, duration_text
from tidemill.workload.slow.devices import FEWEST_MINUTES, DeviceFigures
from tidemill.workload.slow.peers import RULE
from tidemill.workload.slow.ranks import Missing

ADVICE = {
    Missing.ONE_RANK: "call tidemill.track in every rank, with RANK and WORLD_SIZE set",
    Missing.NO_WAITS: "put the exchange into `with run.communication(sync=True):`",
    Missing.FEW_WINDOWS: "ask again when it has run longer",
}
LEGEND = (
    "own: its time per step without waiting, and (in brackets) what that would be at the pace of"
    " its peers; slower: the one over the other, less one; waits: per step, of it and (in brackets)"
    " of its peers; evidence: in how many of its slow windows it was among the slowest, and in how"
    " many jobs of this size chance alone would show that, at most; waited: GPU-hours that the"
    " others waited for it (≤: at most)"
)
NAMES_SHOWN = 5


def calendar_of(launches: Sequence[Launch]) -> Calendar:
    """Dates in UTC, where no journal says a zone."""
    first = min((launch.first_us // 1000 for launch in launches), default=0)
    return Calendar.since_1970(max(first, 2 * 86_400_000), "UTC")


def print_ranks(found: Stragglers, calendar: Calendar, top: int) -> None:
    """Everything that ranks say."""
    console = screen.out()
    waited = _waited(found)
    console.print(_headline(found, waited), soft_wrap=True)
    rows = found.suspects[: top or None]
    if rows:
        console.print(_suspects(rows, waited, calendar))
        screen.note(LEGEND)
        if len(rows) < len(found.suspects):
            screen.note(f"and {len(found.suspects) - len(rows):,} more; --top 0 shows all of them")
    for text in _sentences(found, calendar):
        console.print(text, soft_wrap=True)
    for text in _not_judged(found.not_judged):
        screen.note(text)
    if found.silent_ranks:
        screen.note(
            f"{screen.count(found.silent_ranks, 'rank')} of these jobs told nothing: a slow one"
            " among them is not found"
        )


class _Waited(NamedTuple):
    """What was waited for each suspect, and for all: as printed, rows add up to it."""

    each: list[tuple[str, str]]
    hours: str
    dollars: str


def _waited(found: Stragglers) -> _Waited:
    rows, usd = found.suspects, found.usd_micro
    places = 1 if found.waited_gpu_ms >= 100 * HOUR_MS else 3
    hours = shown([row.waited_gpu_ms for row in rows], HOUR_MS // 10**places)
    texts = [f"{units / 10**places:,.{places}f}" for units in (*hours, sum(hours))]
    money = [dollars_text(row.usd_micro) for row in rows]
    if usd is not None:
        cents = 2 if usd >= 1_000_000 else 4
        units = shown([row.usd_micro or 0 for row in rows], 10 ** (6 - cents))
        money = [dollars_text(unit * 10 ** (6 - cents), cents) for unit in (*units, sum(units))]
    bound = ["≤ " * row.is_from_start for row in rows]
    each = zip([b + text for b, text in zip(bound, texts[:-1], strict=True)], money, strict=False)
    most = "at most " * any(bound)
    return _Waited([*each], most + texts[-1], "" if usd is None else f" ({money[-1]})")


def _headline(found: Stragglers, waited: _Waited) -> str:
    runs = screen.count(found.judged_launches, "run")
    judged = f"{screen.count(found.judged_ranks, 'rank')} of {runs} could be judged"
    if not found.judged_launches:
        return "no run could be judged by its ranks"
    if not found.suspects:
        return f"no rank stands out; {judged}"
    jobs = len({one.job for one in found.suspects})
    return (
        f"{screen.count(len(found.suspects), 'suspect')} in {screen.count(jobs, 'job')};"
        f" the other ranks waited {waited.hours} GPU-hours{waited.dollars} for them; {judged}"
    )


def _hours(gpu_ms: int) -> str:
    hours = gpu_ms / HOUR_MS
    return f"{hours:,.1f}" if hours >= 100 else f"{hours:,.3f}"


def _suspects(rows: Sequence[Suspect], waited: _Waited, calendar: Calendar) -> Table:
    made = screen.table(
        "job", "rank", "node", "slower", "in", "since", "for", "own", "waits", "evidence",
        "waited", "dollars",
    )  # fmt: skip
    for column in (2, 4, 5):
        made.columns[column].justify = "left"
    for row, of_row in zip(rows, waited.each, strict=False):
        made.add_row(
            row.job, f"{row.rank}", row.node or "?", _percent(row.slow_ppm), row.part,
            _since(row, calendar), _lasting(row), _pair(row.own_us, row.expected_us),
            _pair(row.wait_us, row.peers_wait_us), _evidence(row), *of_row,
        )  # fmt: skip
    return made


def _since(row: Suspect, calendar: Calendar) -> str:
    return "its first steps" if row.is_from_start else _moment(calendar, row.since_ms)


def _moment(calendar: Calendar, ms: int) -> str:
    """A moment since 1970, as the calendar writes moments since its beginning."""
    begins = calendar.begins
    assert begins is not None, "observed journals have dates"
    return calendar.text(ms - round(begins.timestamp() * 1000))


def _lasting(row: Suspect) -> str:
    again = f" ({row.stretches}×)" if row.stretches > 1 else ""
    still = " still" if row.is_to_end else ""
    return duration_text(row.until_ms - row.since_ms) + again + still


def _pair(own_us: int, peers_us: int) -> str:
    return f"{own_us / 1000:,.1f} ({peers_us / 1000:,.1f}) ms"


def _evidence(row: Suspect) -> str:
    among = "slowest" if row.slowest_of == 1 else f"among the slowest {row.slowest_of}"
    chance = odds(row.chance_log10)
    return f"{among} of {row.ranks} in {row.slowest_windows} of {row.slow_windows}, {chance}"


MOST_ODDS = 6
"""Ten to the power of this: beyond a million, odds say more of the model than of the ranks."""


def odds(chance_log10: float) -> str:
    """A chance in words, of its logarithm to a tenth: one in how many at least, to a digit."""
    power = max(0.0, min(-chance_log10 - 0.05, MOST_ODDS))
    unit = 10 ** int(power)
    found = int(10**power / unit) * unit
    return f"fewer than 1 in {found:,} by chance" if found > 1 else "by chance alone"


def _sentences(found: Stragglers, calendar: Calendar) -> Iterator[str]:
    """What is not of one rank."""
    for node in found.nodes:
        if node.is_repeated:
            yield (
                f"node `{node.node}` was slow in {node.jobs_slow} of"
                f" {count_text(node.jobs_judged, 'job')} that"
                " ran on it: the node, not a job; drain it and test it (`tidemill probe`)"
            )
    for place in found.placements:
        yield (
            f"node `{place.node}`: steps of {screen.count(place.jobs, 'job')} took"
            f" {_percent(place.slow_ppm)} longer in the launches with it ({place.launches}) than"
            " without it"
        )
    yield from (_slow_job(job, calendar) for job in found.slow_jobs)
    yield from (_unlike(some) for some in found.unlike)


def _slow_job(job: SlowLaunch, calendar: Calendar) -> str:
    cost = "" if job.usd_micro is None else f", {dollars_text(job.usd_micro)}"
    return (
        f"job `{job.job}` as a whole became {_percent(job.slow_ppm)} slower at"
        f" {_moment(calendar, job.since_ms)} ({job.before_us / 1000:,.1f} to"
        f" {job.after_us / 1000:,.1f} ms a step, {_hours(job.lost_gpu_ms)} GPU-hours{cost});"
        f" {_why_slow(job)}"
    )


def _unlike(some: UnlikeLaunch) -> str:
    named = ", ".join(str(rank) for rank in some.ranks[:NAMES_SHOWN])
    more = " …" if len(some.ranks) > NAMES_SHOWN else ""
    on = f" (on {', '.join(some.nodes[:NAMES_SHOWN])})" if some.nodes else ""
    one = len(some.ranks) == 1
    return (
        f"job `{some.job}`: {'rank' if one else 'ranks'} {named}{more}{on}"
        f" {'takes' if one else 'take'} {_percent(some.slow_ppm)} longer than the others from the"
        " first step on: a stage with more work, or slow machines; tell `role=` in tidemill.track,"
        " so that ranks of equal work are compared"
    )


def _percent(ppm: int) -> str:
    return f"{ppm / 10_000:.0f} %"


def _why_slow(job: SlowLaunch) -> str:
    own_ppm = job.own_ppm
    if job.rank is not None:
        usual_us = job.rank_own_us * ONE_PPM / (ONE_PPM + job.rank_slow_ppm)
        return (
            f"rank {job.rank} itself took {_percent(job.rank_slow_ppm)} longer"
            f" ({job.rank_own_us / 1000:,.1f} ms, {usual_us / 1000:,.1f} at the pace of the others)"
            f" in {screen.count(job.rank_windows, 'window')}, and is no suspect yet: jobs look like"
            f" this {odds(job.rank_chance_log10)}, where a suspect needs fewer than 1 in"
            f" {round(1 / RULE.chance)}; ask again when it has run longer"
        )
    if own_ppm is None:
        return "whether its ranks or the exchange between them is not told apart"
    if own_ppm >= 500_000:
        return "all ranks' own work takes longer: clocks, storage, or another kind of step"
    return (
        "the wait for each other grew, and the own work of most ranks did not: the network, or a"
        " rank that told nothing"
    )


def _not_judged(rows: Sequence[NotJudged]) -> list[str]:
    lines = []
    for why in Missing:
        some = sorted({row.job for row in rows if row.why is why})
        if some:
            more = " …" if len(some) > NAMES_SHOWN else ""
            lines.append(
                f"not judged: {screen.count(len(some), 'job')} ({', '.join(some[:NAMES_SHOWN])}"
                f"{more}): {why}; {ADVICE[why]}"
            )
    return lines


def print_devices(found: DeviceStragglers, calendar: Calendar, top: int) -> None:
    """What devices say of each other."""
    console = screen.out()
    judged = f"clocks of several GPUs are known of {screen.count(found.jobs, 'job')}"
    if not found.jobs:
        console.print("no job could be judged by the clocks of its GPUs")
    elif not found.suspects:
        console.print(f"no GPU runs below its peers; {judged}", soft_wrap=True)
    else:
        console.print(
            f"{screen.count(len(found.suspects), 'GPU')} below its peers by clock; {judged}"
        )
        console.print(_devices(found, calendar, top))
        screen.note(
            "longer: by so much takes what is bound by compute at this clock, and in a synchronous"
            " job every other GPU waits for it; the rest: of it and (in brackets) of the other GPUs"
            " of its job"
        )
    if found.too_short:
        screen.note(
            f"{screen.count(found.too_short, 'job')} not judged: the clocks of most of their GPUs"
            f" are known of less than {duration_text(FEWEST_MINUTES * BIN_MS)} in which they were"
            " busy; ask again when they have run longer"
        )
    if found.without_clocks:
        screen.note(
            f"{screen.count(found.without_clocks, 'job')} not judged: nobody told the clock; add"
            " DCGM_FI_DEV_SM_CLOCK (100) to the counters of dcgm-exporter"
        )


def _devices(found: DeviceStragglers, calendar: Calendar, top: int) -> Table:
    made = screen.table(
        "job", "node", "GPU", "longer", "since", "for", "clock", "power", "temperature", "SM active"
    )
    for column in (1, 2, 4):
        made.columns[column].justify = "left"
    for one in found.suspects[: top or None]:
        row, own, others = one.found, one.found.figures, one.found.peers
        name = str(one.minor) if one.minor >= 0 else one.uuid
        made.add_row(
            one.job, one.node, name, _percent(row.slow_ppm),
            _moment(calendar, row.first_ms), duration_text(row.last_ms - row.first_ms),
            *_figures(own, others),
        )  # fmt: skip
    return made


def _figures(own: DeviceFigures, others: DeviceFigures) -> list[str]:
    def pair(mine: int | None, theirs: int | None, unit: str, scale: int = 1) -> str:
        if mine is None or theirs is None:
            return "?"
        return f"{mine // scale:,} ({theirs // scale:,}) {unit}"

    return [
        pair(own.clock_mhz, others.clock_mhz, "MHz"), pair(own.watts, others.watts, "W"),
        pair(own.celsius, others.celsius, "°C"), pair(own.sm_ppm, others.sm_ppm, "%", 10_000),
    ]  # fmt: skip
