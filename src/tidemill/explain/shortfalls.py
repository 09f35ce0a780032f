"""Shortfalls: what does not fit now, as a certificate read off a case that is open already."""

from collections.abc import Callable

from tidemill.explain import certificates, facts, phrasing
from tidemill.explain.answers import Certificate
from tidemill.explain.context import NO_SUPPLY, Case
from tidemill.model.measures import WHOLE_MILLI
from tidemill.model.reasons import Cause


def shortfall(case: Case) -> Certificate | None:
    """What does not fit, in numbers; None where it is not the room that is lacking."""
    if case.is_only_told:
        return None
    make = _SHORTFALLS.get(case.cause)
    found = case.proof if make is None else make(case)
    if found is None:
        return None
    return certificates.with_nearest(found, case.wish(), case.trials)


def _too_few_ready(case: Case) -> Certificate:
    ready, role = case.supply.ready_milli, case.role
    if ready >= role.total_milli and (found := facts.bond(case)) and found[2] < found[1]:
        return _too_far_apart(case)
    return Certificate(
        "ready accelerators", role.total_milli, ready, "accelerator_milli",
        f"{case.units(ready)} take work, it requests {phrasing.amount(role.total_milli)}",
        "wait for nodes to become Ready",
    )  # fmt: skip


def _too_few_free(case: Case) -> Certificate:
    free, role = case.blocks.free_milli, case.role
    return Certificate(
        "free accelerators", role.total_milli, free, "accelerator_milli",
        f"{case.units(free)} free, it requests {phrasing.amount(role.total_milli)}",
        "wait for running jobs to end",
    )  # fmt: skip


def _too_scattered(case: Case) -> Certificate:
    role, largest = case.role, case.blocks.largest
    if role.count > 1 or role.milli < WHOLE_MILLI or role.profile:
        return _too_few_replicas(case)
    return Certificate(
        "accelerators on one node", role.accelerators, largest, "accelerators",
        f"at most {largest} free on one node, it requests {role.accelerators} on one",
        "wait for running jobs to end, or request fewer on one node",
    )  # fmt: skip


def _too_few_replicas(case: Case) -> Certificate:
    role, hosted = case.role, case.hosted
    size = f"`{role.profile}`" if role.profile else phrasing.amount(role.replica_milli)
    beside = " beside its other roles" if case.beside else ""
    return Certificate(
        "gang", role.count, hosted, "replicas",
        f"{hosted:,} of its {phrasing.many(role.count, 'replica')} of {size} would fit{beside}",
        "wait for running jobs to end, or request fewer or smaller replicas",
    )  # fmt: skip


def _too_few_cores(case: Case) -> Certificate:
    most, asked = case.blocks.cpu_most_milli, case.role.cpu_milli
    return Certificate(
        "CPU on one node", asked, most, "cpu_milli",
        f"at most {phrasing.many_cores(most)} free beside enough accelerators, each replica"
        " requests"
        f" {phrasing.cores(asked)}",
        "wait for running jobs to end, or request fewer cores per replica",
    )  # fmt: skip


def _too_little_memory(case: Case) -> Certificate:
    most, asked = case.blocks.memory_most_mib, case.role.memory_mib
    return Certificate(
        "memory on one node", asked, most, "memory_mib",
        f"at most {phrasing.gib(most)} GiB free beside enough accelerators, each replica requests"
        f" {phrasing.gib(asked)}",
        "wait for running jobs to end, or request less memory per replica",
    )  # fmt: skip


def _too_little_of_both(case: Case) -> Certificate:
    most, asked = case.blocks.cpu_most_milli, case.role.cpu_milli
    return Certificate(
        "CPU and memory on one node", asked, most, "cpu_milli",
        f"at most {phrasing.many_cores(most)} and {phrasing.gib(case.blocks.memory_most_mib)} GiB"
        " free beside enough accelerators, and not both on enough nodes; each replica requests"
        f" {phrasing.cores(asked)} and {phrasing.gib(case.role.memory_mib)}",
        "wait for running jobs to end, or request fewer cores and less memory per replica",
    )  # fmt: skip


def _limit_reached(case: Case) -> Certificate:
    world, path = case.world, case.world.tree.paths[int(case.world.shapes.queue[case.s])]
    whose = world.queue_rows[path[0]].name
    kinds = [option.kind for option in case.options if option.kind >= 0]
    left, k = max((int((world.limit - world.used)[path, k].min()), -k) for k in kinds)
    kind, asked = world.kinds[-k], case.role.total_milli
    return Certificate(
        "limit", asked, max(0, left), "accelerator_milli",
        f"{phrasing.team(whose)} may use {phrasing.amount(max(0, left))} `{kind}` more, it"
        " requests"
        f" {phrasing.amount(asked)}",
        f"raise the maximum quota of `{whose}`, or wait for its own jobs to end",
    )  # fmt: skip


def _kept_for_others(case: Case) -> Certificate:
    world, asked = case.world, case.role.total_milli
    kinds = [option.kind for option in case.options if option.kind >= 0]
    left, k = max((world.kind_free_milli.item(k) - int(world.kind_kept[k]), -k) for k in kinds)
    return Certificate(
        "lending limit", asked, max(0, left), "accelerator_milli",
        f"{phrasing.amount(max(0, left))} `{world.kinds[-k]}` are free and not kept back by another"
        " team,"
        f" it requests {phrasing.amount(asked)}",
        "raise what those teams may lend, or wait for running jobs to end",
    )  # fmt: skip


def _too_far_apart(case: Case) -> Certificate:
    found = facts.bond(case)
    assert found is not None, "the cause says that there is one"
    must, asked, most = found
    wants, has = phrasing.together(case.role, asked), phrasing.together(case.role, most)
    state, end = ("Ready", "nodes to become Ready") if case.cause in NO_SUPPLY else _FREED
    return Certificate(
        f"one {must.tier}", asked, most, "replicas",
        f"the largest `{must.tier}` has {has} {state}, it requests {wants} in one",
        f"wait for {end}, or prefer one `{must.tier}` instead of requiring it",
    )  # fmt: skip


_FREED = ("free", "running jobs to end")
_SHORTFALLS: dict[Cause, Callable[[Case], Certificate]] = {
    Cause.NOTHING_LAUNCHED: _too_few_ready,
    Cause.NOTHING_READY: _too_few_ready,
    Cause.NOT_ENOUGH_READY: _too_few_ready,
    Cause.OVER_LIMIT: _limit_reached,
    Cause.KEPT_BACK: _kept_for_others,
    Cause.BUSY: _too_few_free,
    Cause.PARTIAL_GANG: _too_few_replicas,
    Cause.SCATTERED: _too_scattered,
    Cause.CPU_BINDS: _too_few_cores,
    Cause.MEMORY_BINDS: _too_little_memory,
    Cause.HOST_BINDS: _too_little_of_both,
    Cause.TOPOLOGY: _too_far_apart,
}
