"""CPU and memory of a job that says neither: as jobs of its size here request them.

Where another scheduler decides, jobs that ask for none of both still get some: a job that is only
asked about is not to fit where those that were submitted do not.
"""

from msgspec.structs import replace

from tidemill.explain import phrasing
from tidemill.model.rows import OF, Job, Role
from tidemill.model.world import World
from tidemill.scheduling.demand_mix import Ask, Mix


def filled(world: World, job: Job, *, is_cpu: bool, is_memory: bool) -> tuple[Job, tuple[str, ...]]:
    """The job with what was left out (CPU, memory) of its role, and that in words."""
    role = job.shape.roles[0]
    if not world.is_looked_on or role.profile or not (is_cpu or is_memory):
        return job, ()
    mix = Mix()
    mix.update(world)
    counts = dict[Ask, int]()
    for size, arrivals in zip(mix.sizes, mix.arrivals.tolist(), strict=False):
        ask = mix.asks[size.ask]
        if arrivals and _is_alike(ask, role):
            counts[ask] = counts.get(ask, 0) + arrivals
    cpu = _median({ask: ask.cpu_milli for ask in counts}, counts)
    memory = _median({ask: ask.memory_mib for ask in counts}, counts)
    role = replace(
        role, cpu_milli=cpu if is_cpu else role.cpu_milli,
        memory_mib=memory if is_memory else role.memory_mib,
    )  # fmt: skip
    shape = replace(job.shape, roles=(role, *job.shape.roles[1:]))
    each = phrasing.amounts(role.replica_milli, "GPU")
    told = [phrasing.many_cores(cpu) if cpu else "no CPU"] * is_cpu
    told += [f"{phrasing.gib(memory)} GiB of memory" if memory else "no memory"] * is_memory
    given = [*["--cpus"] * is_cpu, *["--memory-gib"] * is_memory]
    jobs = sum(counts.values())
    why = f"as the books have it of {phrasing.many(jobs, 'job')} with {each} a replica (the median)"
    if not jobs:
        why = f"for no job here has {each} a replica"
    words = f"each replica requests {' and '.join(told)}, {why}; say more with {', '.join(given)}"
    return replace(job, shape=shape), (words,)


def _is_alike(ask: Ask, role: Role) -> bool:
    """Whether it is of the same size, on whole GPUs or the same parts of GPUs."""
    if ask.per_node != (role.accelerators, role.milli):
        return False
    is_part = any(OF in kind for kind in role.kinds) and all(OF in kind for kind in role.kinds)
    is_of_parts = bool(ask.kinds) and all(OF in kind for kind in ask.kinds)
    return {*ask.kinds} <= {*role.kinds} if is_part else not is_of_parts


def _median(amounts: dict[Ask, int], counts: dict[Ask, int]) -> int:
    """The amount that at least half of the jobs do not pass."""
    left = (sum(counts.values()) + 1) // 2
    for ask in sorted(counts, key=lambda ask: amounts[ask]):
        left -= counts[ask]
        if left <= 0:
            return amounts[ask]
    return 0
