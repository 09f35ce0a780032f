"""Jobs by the names that people have for them: in full, without what is before it, or of a pod."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from tidemill.cli import screen
from tidemill.cli.suggested import located
from tidemill.model.errors import SpecError
from tidemill.model.measures import MINUTE_MS, count_text
from tidemill.model.states import JobState

if TYPE_CHECKING:
    from tidemill.model.held import UnplacedJob
    from tidemill.model.world import World

MOST_NAMED = 8
UNCOUNTED = ("aws.amazon.com/neuroncore", "nvidia.com/vgpu")
GANG_OF_POD = (
    "kubectl get pods -A --field-selector metadata.name={pod} -o"
    " custom-columns=NAMESPACE:.metadata.namespace,OWNER:.metadata.ownerReferences[*].name,"
    "GANG:.metadata.annotations.tidemill/gang"
)
"""Shows what a pod belongs to: that and its namespace are the name of its job."""
REQUESTS_OF_POD = "kubectl get pod{of} {pod} -o jsonpath='{{.spec.containers[*].resources}}'"
"""Shows what a pod requests."""


def job_number(
    world: "World", name: str, journal: str, at: str | None, held: Iterable[str] = ()
) -> int:
    """The number of a job by its name; says when it is submitted, or which names are near.

    Of a job that was over and came again under its name, its present life; the others are named.
    ``held``: jobs that are in no queue, and may be meant too.
    """
    name = _present(world, full(world, name, held))
    j = world.job_number.get(name)
    if j is not None:
        return j
    if at is not None:
        _refuse_early(name, journal, at)
    _refuse_sharer(world, name)
    near = meant(name, {*world.job_names, *held})
    like = ", ".join(f"`{one}`" for one in near[:MOST_NAMED])
    more = f" and {len(near) - MOST_NAMED:,} more" if len(near) > MOST_NAMED else ""
    hint = f"did you mean {like}{more}?" if near else located("see `tidemill pending`", journal)
    raise SpecError(
        f"no job is called `{name}`; the journal has {count_text(world.job_count, 'job')}",
        hint=hint + _of_pods(world, name),
    )


def _refuse_sharer(world: "World", name: str) -> None:
    """Refuse a pod that is no job for it shares the claim of one, and name that."""
    shares = next((one for one in world.claim_sharers if one.pod == name), None)
    if shares is not None:
        raise SpecError(
            f"`{name}` is a pod that shares claim `{shares.claim}` with job `{shares.job}`, and no"
            " job by itself",
            hint=f"ask about `{shares.job}`",
        )


def full(world: "World", name: str, held: Iterable[str] = ()) -> str:
    """The name of the one job that is called so in some namespace, or cluster; else as given."""
    names = {*held}
    if name in world.job_number or name in names:
        return name
    found = _called(name, names.union(world.job_names))
    if len(found) != 1:
        return name
    screen.note(f"`{name}` is `{found[0]}`")
    return found[0]


def held_job(world: "World", name: str, held: "Sequence[UnplacedJob]") -> "UnplacedJob | None":
    """The job that is held and has this full name, or the first of those that belong to what has.

    None: no such job is held; or one that is not held, and is not over, is called so.
    """
    by_name = {one.name: one for one in held}
    if name in by_name:
        return by_name[name]
    j = world.job_number.get(name)
    above = _called(name, {above for one in held for above in one.of})
    if len(above) != 1 or (j is not None and world.jobs.state.item(j) <= JobState.RUNNING):
        return None
    mine = [one for one in held if above[0] in one.of]
    _note_owned(above[0], [one.name for one in mine])
    return mine[0]


def names_of(held: "Iterable[UnplacedJob]") -> set[str]:
    """What jobs that are held may be asked for by: their own names, and what they belong to."""
    return {name for one in held for name in (one.name, *one.of)}


def _note_owned(above: str, mine: list[str]) -> None:
    """Say of which of the jobs that belong to something the answer is."""
    others = ", ".join(f"`{one}`" for one in mine[1:MOST_NAMED])
    more = f" and {len(mine) - MOST_NAMED:,} more" if len(mine) > MOST_NAMED else ""
    beside = f"; the same may be asked of {others}{more}" if others else ""
    screen.note(f"`{mine[0]}` belongs to `{above}`, and is held{beside}")


def meant(name: str, names: set[str]) -> list[str]:
    """Names that may be meant: in some namespace or cluster, of what owns such a pod, alike ones.

    Of alike ones those that begin with the name, if any do.

    Pods are called as their owner, and then a number, or letters that nobody chose.
    """
    from difflib import get_close_matches

    parts = name.split("-")
    for end in range(len(parts), 0, -1):
        if found := _called("-".join(parts[:end]), names):
            return found
    last = {one.rpartition("/")[2]: one for one in sorted(names)}
    near = {*names, *last}
    close = sorted(one for one in near if name and one.startswith(name))
    close = close or get_close_matches(name, near, n=3)
    return list(dict.fromkeys(last.get(one, one) for one in close))


def _called(name: str, names: set[str]) -> list[str]:
    """Jobs that are called so in whatever namespace or cluster; with their kind, where two are."""
    ends = f"/{name}"
    bare = ((one, one.partition(" (")[0]) for one in names)
    return sorted(one for one, told in bare if told == name or told.endswith(ends))


def _of_pods(world: "World", name: str) -> str:
    """How jobs of Kubernetes are named, where they may be in such a cluster."""
    from tidemill.journal import cluster_kinds

    of_job = cluster_kinds.of_job(world, name)
    kinds = {of_job.kind} if of_job.kind else {*world.cluster_kinds.values()}
    if cluster_kinds.KUBERNETES not in kinds:
        return ""
    namespace, _, pod = of_job.name.rpartition("/")
    of = f" -n {namespace}" if namespace else ""
    return (
        " (a gang is NAMESPACE/ and the name of its pod group, of the annotation tidemill/gang, or"
        " of what owns its pods; pods that start one by one, as of a Deployment, are jobs by their"
        f" own names; where `{pod}` is a pod: `{GANG_OF_POD.format(pod=pod)}`; pods that request no"
        " GPU, or only parts of"
        f" accelerators whose size nobody says ({', '.join(UNCOUNTED)}), are not on the books:"
        f" `{REQUESTS_OF_POD.format(of=of, pod=pod)}`)"
    )


def _present(world: "World", name: str) -> str:
    """The present life of a job; "#1" after its name is the first."""
    from tidemill.model import lives

    if name.endswith(lives.FIRST):
        return name.removesuffix(lives.FIRST)
    found = lives.all_of(name, world.job_number)
    if len(found) < 2:
        return name
    ended = ", ".join(
        f"`{name + lives.FIRST if life == name else life}`"
        f" ({_ENDED[JobState(world.jobs.state.item(world.job_number[life]))]})"
        for life in found[:-1]
    )
    screen.note(f"`{name}` is `{found[-1]}` now; before: {ended}")
    return found[-1]


_ENDED = {
    JobState.WAITING: "waits", JobState.STARTING: "starts", JobState.RUNNING: "runs",
    JobState.DONE: "finished", JobState.FAILED: "failed",
    JobState.CANCELLED: "its pods went or were made anew",
}  # fmt: skip


def _refuse_early(name: str, journal: str, at: str) -> None:
    """Refuse a moment before the job is submitted, and name one at which it can be asked about."""
    from tidemill import api

    world, _ = api.open_world(journal)
    j = world.job_number.get(name)
    if j is not None:
        submit_ms = int(world.jobs.submit_ms[j])
        hours, minutes = divmod(-(-submit_ms // MINUTE_MS), 60)
        raise SpecError(
            f"job `{name}` is submitted at {api.calendar_of(journal).text(submit_ms)}, after"
            f" --at {at}",
            hint=f"ask about a moment from then on, such as --at {hours}h"
            + f"{minutes}m" * bool(minutes),
        )
