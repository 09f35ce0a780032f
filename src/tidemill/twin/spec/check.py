"""Whether the supply side of a spec agrees: names, windows, quotas against what is paid for.

Raises at the first thing that cannot be. Types and ranges of single fields were checked while
reading; what jobs ask for is checked in ``spec_check_jobs``.
"""

from tidemill.model.decoding import nearest, shown
from tidemill.model.errors import SpecError
from tidemill.model.measures import FOREVER_MS, HOUR_MS, ONE_PPM, duration_text
from tidemill.model.tree import MAX_DEPTH
from tidemill.reservation import types
from tidemill.twin import effort, fleet
from tidemill.twin.spec import check_computes, check_jobs, check_tiers
from tidemill.twin.spec.errors import SpecPlace
from tidemill.twin.spec.tables import (
    MAX_JOBS,
    MAX_LOST_RACES,
    MAX_NODES,
    MAX_TEAMS,
    ContractTable,
    Spec,
    Spread,
    TeamTable,
)


def check(spec: Spec) -> None:
    """Raise a SpecError at the first disagreement."""
    _refuse_empty(spec)
    _check_calendar(spec)
    _refuse_same_contracts(spec)
    for i, contract in enumerate(spec.contracts, 1):
        _check_contract(SpecPlace(spec.source, "contract", i, contract.name), contract)
    _refuse_absurd(spec)
    _check_teams(spec)
    _check_faults(spec)
    check_tiers.check(spec)
    check_jobs.check(spec)
    check_computes.check(spec)


def _refuse_empty(spec: Spec) -> None:
    for table, count in (("contract", len(spec.contracts)), ("team", len(spec.teams))):
        if not count:
            raise SpecError(
                f"`{spec.source}` has no [[{table}]]; a simulation needs at least one",
                hint="`tidemill twin generate` writes a file to start from",
            )
    if not spec.twin.horizon:
        SpecPlace(spec.source, "twin").refuse(
            "horizon", 'expected a time above 0; found "0s"', hint='for example horizon = "14d"'
        )


def _check_calendar(spec: Spec) -> None:
    place = SpecPlace(spec.source, "twin")
    try:
        calendar = fleet.calendar(spec)
    except SpecError as error:
        place.refuse("begins", error.message, hint=error.hint)
    if calendar.week_ms % HOUR_MS:
        place.refuse(
            "begins",
            f"expected a full hour; found `{spec.twin.begins}`",
            hint="daily rhythms go by the hour: begin at one, such as 2026-03-02T06:00",
        )


def _refuse_same_contracts(spec: Spec) -> None:
    first: dict[str, tuple[int, ContractTable]] = {}
    for i, row in enumerate(spec.contracts, 1):
        if row.name not in first:
            first[row.name] = (i, row)
            continue
        at, other = first[row.name]
        start, end = max(row.start, other.start), min(_end_ms(row), _end_ms(other))
        place = SpecPlace(spec.source, "contract", i, row.name)
        if start < end:
            until = "the end" if end == FOREVER_MS else duration_text(end)
            found = (
                f"the name of row {at} too, and they overlap from {duration_text(start)} to {until}"
            )
            place.refuse("name", found, hint="raise the `count` of one, or name them apart")
        place.refuse(
            "name",
            f"the name of row {at} too; their times do not overlap",
            hint=f"name a renewal apart, for example `{row.name[:190]}-{i}`",
        )


def _check_contract(place: SpecPlace, row: ContractTable) -> None:
    if row.terms not in types.TYPES:
        place.refuse_row("terms", row.terms, types.TYPES, what="contract type")
    if row.end is not None and row.end <= row.start:
        found = (
            f"it ends at {duration_text(row.end)}, not after its start {duration_text(row.start)}"
        )
        place.refuse("end", found, hint="give a later `end`, or leave it out to keep it")
    per_node = row.accelerators_per_node
    if row.count % per_node:
        place.refuse(
            "count",
            f"{row.count} accelerators are not whole nodes of {per_node}",
            hint=f"{row.count // per_node * per_node or per_node} or"
            f" {(row.count // per_node + 1) * per_node} would be",
        )
    if row.advertised is not None and row.advertised > per_node:
        found = f"{row.advertised} accelerators of a node are advertised, and it has {per_node}"
        place.refuse("advertised", found, hint=f"at most {per_node}, or leave it out: all are")
    if row.advertised is not None and types.TYPES[row.terms].is_elastic:
        found = f"nodes of type `{row.terms}` are launched by what they give when all is well"
        place.refuse("advertised", found, hint="say it of a `reserved` contract")
    if row.spares * per_node >= row.count:
        found = f"{row.spares} spare nodes of {row.count // per_node} leave nothing to use"
        place.refuse("spares", found, hint="keep fewer spares than nodes")


def _refuse_absurd(spec: Spec) -> None:
    nodes = sum(row.count // row.accelerators_per_node for row in spec.contracts)
    if nodes > MAX_NODES:
        raise SpecError(
            f"`{spec.source}` pays for {nodes:,} nodes; at most {MAX_NODES:,} fit in memory",
            hint="describe one site at a time",
        )
    if len(spec.teams) > MAX_TEAMS:
        raise SpecError(
            f"`{spec.source}` has {len(spec.teams):,} teams; at most {MAX_TEAMS:,} are taken",
            hint="put people together who share a quota",
        )
    jobs = effort.jobs_expected(spec)
    if jobs > MAX_JOBS:
        raise SpecError(
            f"`{spec.source}` asks for about {jobs:,.0f} jobs; at most {MAX_JOBS:,} fit in memory",
            hint="shorten the `horizon` or lower `per_day`",
        )


def _check_teams(spec: Spec) -> None:
    check_tree(spec)
    kinds = sorted({row.kind for row in spec.contracts})
    for i, team in enumerate(spec.teams, 1):
        _check_shares(SpecPlace(spec.source, "team", i, team.name), team, kinds)
    for kind in kinds:
        sure = _sure(spec, kind)
        _refuse_broken_promise(spec, kind, sure)
        _refuse_overbooked_floors(spec, kind, sure)


def _check_shares(place: SpecPlace, team: TeamTable, kinds: list[str]) -> None:
    tables = (
        ("guaranteed", team.floor),
        ("maximum", team.limit),
        ("borrow", team.borrow),
        ("lend", team.lend),
    )
    for table, shares in tables:
        for kind in shares:
            if kind not in kinds:
                hint = nearest(kind, kinds)
                place.refuse(table, f"no contract has GPUs of type `{kind}`", hint=hint)
    for kind, floor in team.floor.items():
        if floor > team.limit.get(kind, floor):
            found = f"{floor} {kind} is above the maximum quota of {team.limit[kind]}"
            hint = "raise the maximum quota or lower the guaranteed quota"
            place.refuse("guaranteed", found, hint=hint)


def check_tree(spec: Spec) -> None:
    """Refuse teams that have one name, or that are under no team, or under themselves."""
    seen: dict[str, int] = {}
    for i, team in enumerate(spec.teams, 1):
        if team.name in seen:
            found = f"the name of row {seen[team.name]} too"
            place = SpecPlace(spec.source, "team", i, team.name)
            place.refuse("name", found, hint="give every team a name of its own")
        seen[team.name] = i
    by_name = {row.name: row for row in spec.teams}
    for i, team in enumerate(spec.teams, 1):
        _check_parent(SpecPlace(spec.source, "team", i, team.name), team, by_name)


def _check_parent(place: SpecPlace, team: TeamTable, by_name: dict[str, TeamTable]) -> None:
    if team.parent and team.parent not in by_name:
        hint = nearest(team.parent, by_name)
        place.refuse("parent", f"there is no team `{team.parent}`", hint=hint)
    above = fleet.upward(by_name, team)
    if len(above) > MAX_DEPTH:
        found = f"more than {MAX_DEPTH} teams, each under another"
        place.refuse("parent", found, hint="keep fewer levels: put teams beside each other")
    if above[-1].parent:
        ring = " under ".join(f"`{row.name}`" for row in above)
        found = f"a ring: {ring} under `{above[-1].parent}`"
        place.refuse("parent", found, hint="leave out one of these parents: a tree has a top")


def _refuse_broken_promise(spec: Spec, kind: str, sure: dict[str, int]) -> None:
    for i, team in enumerate(spec.teams, 1):
        limit = team.limit.get(kind)
        if limit is not None and sure[team.name] > limit:
            found = (
                f"a maximum quota of {limit} {kind}, and the guaranteed quotas of the teams below"
                f" it add up to {sure[team.name]}"
            )
            hint = "raise the maximum quota, or lower the guaranteed quotas below it"
            SpecPlace(spec.source, "team", i, team.name).refuse("maximum", found, hint=hint)


def _sure(spec: Spec, kind: str) -> dict[str, int]:
    """What each team is sure of with all that are below it; the tree has no ring."""
    by_name = {row.name: row for row in spec.teams}
    depth = {row.name: len(fleet.upward(by_name, row)) for row in spec.teams}
    sure, below = dict.fromkeys(by_name, 0), dict.fromkeys(by_name, 0)
    for row in sorted(spec.teams, key=lambda row: -depth[row.name]):
        sure[row.name] = max(row.floor.get(kind, 0), below[row.name])
        if row.parent:
            below[row.parent] += sure[row.name]
    return sure


def _refuse_overbooked_floors(spec: Spec, kind: str, sure: dict[str, int]) -> None:
    floors = [(sure[team.name], team.name) for team in spec.teams if not team.parent]
    promised = sum(floor for floor, _ in floors)
    there = fleet.at_once(fleet.usable(spec.contracts, (kind,)))
    if promised > there:
        most, name = max(floors)
        raise SpecError(
            f"`{spec.source}`, [[team]]: the guaranteed quotas of {kind} add up to {promised:,};"
            f" the contracts give at most {there:,} at once, hot spares left out",
            hint=f"lower them by {promised - there:,}; the largest is {most:,}, of `{name}`",
        )


def _check_faults(spec: Spec) -> None:
    place, given = SpecPlace(spec.source, "faults"), spec.faults.repair
    if spec.faults.lost_races > MAX_LOST_RACES:
        place.refuse(
            "lost_races",
            f"expected a chance of at most {MAX_LOST_RACES / ONE_PPM};"
            f" found {spec.faults.lost_races / ONE_PPM}",
            hint="it is the share of binds that others were quicker than, for example 0.02",
        )
    if isinstance(given, Spread):
        check_jobs.check_spread(place, "repair", given)
        return
    try:
        fleet.repair(given)
    except ValueError:
        place.refuse(
            "repair",
            f'expected "infinitehbd", a duration or a median and mean; found {shown(given)}',
            hint='for example repair = "4h" or repair = { median = "4h", mean = "1d" }',
        )


def _end_ms(row: ContractTable) -> int:
    return FOREVER_MS if row.end is None else int(row.end)
