"""Whether what jobs ask for can be had: teams, kinds, gangs and the fleet, replicas and nodes.

Single jobs that can never fit are refused here, by name; generated ones are made to fit.
"""

from tidemill.model.decoding import nearest, shown
from tidemill.model.errors import SpecError
from tidemill.model.measures import DAY_MS, ONE_PPM, WHOLE_MILLI, decimal_number, duration_text
from tidemill.model.rows import MAX_COUNT
from tidemill.model.states import JobClass
from tidemill.twin import durations, fleet, presets
from tidemill.twin.spec.errors import SpecPlace
from tidemill.twin.spec.tables import JobTable, Spec, Spread, Traits, WorkloadTable

_AFFINITY_HINT = (
    'such as { key = "zone", test = "in", values = ["a", "b"] }, { key = "ssd", test = "exists" },'
    ' or { key = "rack", test = "above", values = ["7"] }'
)


def check(spec: Spec) -> None:
    """Raise a SpecError at the first workload or job that cannot be."""
    _refuse_same_names(spec)
    for i, workload in enumerate(spec.workloads, 1):
        place = SpecPlace(spec.source, "workload", i, workload.name)
        _check_traits(place, workload, spec)
        _check_workload(place, workload, spec)
    for i, job in enumerate(spec.jobs, 1):
        place = SpecPlace(spec.source, "job", i, job.name)
        _check_traits(place, job, spec)
        _check_job(place, job, spec)


def check_spread(place: SpecPlace, field: str, given: Spread) -> None:
    """Refuse times that no heavy-tailed distribution has."""
    if not given.median or not given.mean:
        found = 'expected a median and a mean above 0; found "0s"'
        place.refuse(field, found, hint=f'for example {field} = {{ median = "30m", mean = "2h" }}')
    try:
        durations.fit(int(given.median), int(given.mean), int(given.longest))
    except SpecError as error:
        place.refuse(field, error.message, hint=error.hint)


def size_milli(place: SpecPlace, text: str) -> int:
    """A size as it stands in ``sizes``: a whole number of accelerators or a fraction of one."""
    try:
        size = decimal_number(text)
    except ValueError:
        size = 0.0
    milli = round(size * WHOLE_MILLI)
    if not (0 < milli < WHOLE_MILLI or (size == int(size) and 0 < size <= MAX_COUNT)):
        place.refuse(
            "sizes",
            f"expected whole accelerators or a fraction of one; found {shown(text)}",
            hint='for example sizes = { "0.25" = 0.3, 1 = 0.5, 8 = 0.2 }; quote fractions',
        )
    return milli


def _refuse_same_names(spec: Spec) -> None:
    """Jobs are named after their workload or themselves, so these must not run into each other."""
    seen: dict[str, str] = {}
    many = {row.name for row in spec.workloads} | {r.name for r in spec.jobs if r.copies > 1}
    for table, rows in (("workload", spec.workloads), ("job", spec.jobs)):
        for i, row in enumerate(rows, 1):
            place = SpecPlace(spec.source, table, i, row.name)
            if row.name in seen:
                found = f"the name of {seen[row.name]} too"
                place.refuse("name", found, hint="give each a name of its own")
            seen[row.name] = f"[[{table}]] {i}"
            stem, _, number = row.name.rpartition("-")
            if stem in many and number.isdigit():
                found = f"jobs of `{stem}` are named like this"
                place.refuse("name", found, hint="choose a name that does not end in a number")


def _check_elastic(place: SpecPlace, row: Traits) -> None:
    """An elastic gang has several sizes; what ties its replicas is of one."""
    is_tied = row.parallelism is not None or any(bond.is_required for bond in fleet.bonds(row))
    if row.elastic < ONE_PPM and is_tied:
        found = f"job `{row.name}` is elastic and its replicas must sit together in one way"
        place.refuse("elastic", found, hint="leave out `elastic`, or what ties it")


def _check_traits(place: SpecPlace, row: Traits, spec: Spec) -> None:
    _check_elastic(place, row)
    teams = [team.name for team in spec.teams]
    if row.team not in teams:
        place.refuse("team", f"there is no team `{row.team}`", hint=nearest(row.team, teams))
    below = [team.name for team in spec.teams if team.parent == row.team]
    if below:
        found = f"`{row.team}` has teams below it, and jobs belong to the lowest"
        place.refuse("team", found, hint=f"give it to one of: {', '.join(below)}")
    kinds = {contract.kind for contract in spec.contracts}
    for kind in row.kinds:
        if kind not in kinds:
            found = f"no contract has GPUs of type `{kind}`"
            place.refuse("kinds", found, hint=nearest(kind, kinds))
    for one in row.affinity:
        if one.flaw:
            given = ", ".join(f"`{value}`" for value in one.values) or "none"
            found = f"the test `{one.test}` of `{one.key}` {one.flaw}; found {given}"
            place.refuse("affinity", found, hint=_AFFINITY_HINT)
    _refuse_misplaced(place, row)
    _check_profile(place, row, spec)
    _check_checkpoint(place, row)
    total = (row.mfu or 0) + row.host_stall + row.link_stall
    if total > ONE_PPM:
        found = f"`mfu`, `host_stall` and `link_stall` add up to {total / ONE_PPM:.2f}, above 1"
        place.refuse("mfu", found, hint="they are shares of the same time")
    _check_roof(place, row)


def _check_roof(place: SpecPlace, row: Traits) -> None:
    """The attainable roof stands beside a stated MFU, and above it."""
    if row.attainable is None:
        return
    if row.mfu is None:
        place.refuse(
            "attainable",
            "`attainable` without `mfu`: it divides what a stated MFU leaves",
            hint="give `mfu` too, or only `computes`, from which both follow",
        )
    elif row.mfu * ONE_PPM > row.attainable * (ONE_PPM - row.host_stall - row.link_stall):
        found = f"`mfu` is above the roof, `attainable` {row.attainable / ONE_PPM:.2f} of the time"
        hint = "attainable: FLOP/s that memory bandwidth allows at this intensity, over the peak"
        place.refuse("attainable", f"{found} without stalls", hint=hint)


def _check_profile(place: SpecPlace, row: Traits, spec: Spec) -> None:
    """MIG instances: of one share on the kinds it may use, and tied to nobody."""
    if not row.profile:
        return
    try:
        fleet.share_milli(row, spec.contracts)
    except SpecError as error:
        place.refuse("profile", error.message, hint=error.hint)
    if row.parallelism is not None or fleet.bonds(row):
        found = "MIG instances are not tied together by a tier or a parallelism"
        place.refuse("profile", found, hint="leave out `within`, `near` and `parallelism`")
    sizes = getattr(row, "sizes", None)
    if sizes is not None and (not sizes or any(not text.isdecimal() for text in sizes)):
        found = "`sizes` are numbers of instances, and no preset knows any"
        place.refuse("profile", found, hint="for example sizes = { 1 = 0.9, 2 = 0.1 }")


def _refuse_misplaced(place: SpecPlace, row: Traits) -> None:
    """What has no effect on a class of jobs is refused, so that nobody waits for its effect."""
    belongs = {
        "checkpoint": (row.checkpoint, JobClass.TRAINING),
        "tide": (row.tide, JobClass.INFERENCE),
        "active": (getattr(row, "active", None), JobClass.INTERACTIVE),
    }
    for field, (value, only) in belongs.items():
        if value is not None and row.job_class is not only:
            found = f"only {only} jobs have it; this one is {row.job_class}"
            place.refuse(field, found, hint=f'leave it out, or write class = "{only}"')


def _check_checkpoint(place: SpecPlace, row: Traits) -> None:
    """A job that saves every 0 seconds never works."""
    if row.checkpoint is not None and not row.checkpoint.every:
        place.refuse(
            "checkpoint.every",
            'expected a time above 0; found "0s"',
            hint='for example every = "30m"; leave `checkpoint` out for a job that never saves',
        )


def _refuse_after_the_end(place: SpecPlace, field: str, at_ms: int, spec: Spec) -> None:
    """What comes after the horizon would be left out without a word."""
    if at_ms > spec.twin.horizon:
        found = (
            f"it comes at {duration_text(at_ms)}, after the horizon of"
            f" {duration_text(spec.twin.horizon)}"
        )
        hint = f'for example horizon = "{-(-at_ms // DAY_MS)}d"; or leave it out'
        place.refuse(field, found, hint=hint)


def _check_workload(place: SpecPlace, row: WorkloadTable, spec: Spec) -> None:
    if row.preset and row.preset not in presets.PRESETS:
        found = f"there is no preset `{row.preset}`"
        place.refuse("preset", found, hint=nearest(row.preset, presets.PRESETS))
    for field, given in (("sizes", row.sizes), ("run", row.run)):
        if not given and not row.preset:
            hint = f"add `{field}`, or a preset: {', '.join(presets.PRESETS)}"
            place.refuse(field, "it is missing, and there is no preset to take it from", hint=hint)
    for size in row.sizes:
        size_milli(place, size)
    _check_weights(place, "sizes", row.sizes)
    _check_weights(place, "users", row.users if isinstance(row.users, dict) else {})
    for field, spread in (("run", row.run), ("active", row.active)):
        if spread is not None:
            check_spread(place, field, spread)
    _refuse_after_the_end(place, "start", int(row.start), spec)
    if row.end is not None and row.end <= row.start:
        found = (
            f"it ends at {duration_text(row.end)}, not after its start {duration_text(row.start)}"
        )
        place.refuse("end", found, hint="give a later `end`, or leave it out")
    if (row.fail or 0) + (row.cancel or 0) > ONE_PPM:
        place.refuse("fail", "`fail` and `cancel` add up to more than 1", hint="lower one of them")
    _refuse_hungry(place, row, spec, WHOLE_MILLI)


def _check_weights(place: SpecPlace, field: str, weights: dict[str, float]) -> None:
    if weights and not sum(weights.values()):
        place.refuse(field, "the shares add up to 0", hint="give at least one of them a share")


def _check_job(place: SpecPlace, row: JobTable, spec: Spec) -> None:
    if row.fraction is not None and row.accelerators != 1:
        found = f"a fraction is of one accelerator; found {row.accelerators} accelerators"
        place.refuse("fraction", found, hint="leave `accelerators` out")
    if row.fraction is not None and row.fraction < ONE_PPM // WHOLE_MILLI:
        place.refuse("fraction", "expected at least 0.001", hint="0.25 is a quarter")
    _refuse_after_the_end(place, "at", int(row.at), spec)
    if not row.work:
        place.refuse("work", 'expected a time above 0; found "0s"', hint='such as work = "5h"')
    if row.profile and (row.fraction is not None or not row.accelerators):
        found = "`accelerators` is the number of instances; their size is that of the profile"
        place.refuse("profile", found, hint="leave `fraction` out")
    found_at_once = fleet.at_once(fleet.usable(spec.contracts, row.kinds))
    each = fleet.share_milli(row, spec.contracts)
    if row.accelerators * each > found_at_once * WHOLE_MILLI:
        of = f" of type {', '.join(row.kinds)}" if row.kinds else ""
        place.refuse(
            "accelerators",
            f"job `{row.name}` requests {row.accelerators:,} accelerators{of}; the contracts give"
            f" at most {found_at_once:,} at once, hot spares left out",
            hint="ask for fewer, allow more `kinds`, or raise the `count` of a contract",
        )
    per_node = fleet.node_devices(spec.contracts, row.kinds)
    replica = fleet.replica_size(row.accelerators, per_node)
    part = WHOLE_MILLI if row.fraction is None else row.fraction * WHOLE_MILLI // ONE_PPM
    _refuse_hungry(place, row, spec, each if row.profile else max(1, replica) * part)


def _refuse_hungry(place: SpecPlace, row: Traits, spec: Spec, used_milli: int) -> None:
    """A replica whose processors or memory no node has can never be placed."""
    usable = fleet.usable(spec.contracts, row.kinds)
    for field, each, most in (
        ("cpu_per_accelerator", row.cpu_per_accelerator, max(c.cpu_per_node for c in usable)),
        (
            "memory_gib_per_accelerator",
            row.memory_gib_per_accelerator,
            max(c.memory_gib_per_node for c in usable),
        ),
    ):
        if each * used_milli // WHOLE_MILLI > most:
            place.refuse(
                field,
                f"one replica would need more of it than the largest node has"
                f" ({each * used_milli // WHOLE_MILLI:,} > {most:,}, in thousandths or MiB)",
                hint=f"lower `{field}`, or give the nodes more",
            )
