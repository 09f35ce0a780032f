"""Annotations by which somebody tells us what nobody can heed: it is said, and never guessed at."""

from collections.abc import Callable, Iterable, Iterator, Mapping

from tidemill.live.kubernetes import groups, notices, ties
from tidemill.live.kubernetes.jobs import KubeJob
from tidemill.live.kubernetes.owners import OwnerObject
from tidemill.live.kubernetes.pods import PREEMPTIBLE, KubePod
from tidemill.live.kubernetes.scheduling import estimates, parallelism, sizes
from tidemill.live.kubernetes.scheduling.sizes import LEAST
from tidemill.model import decoding
from tidemill.model.topology import Topology

OURS = "tidemill/"
GANG, SIZE, PREFERRED = groups.GANG, "tidemill/gang-size", "tidemill/preferred-topology"
READ = (
    GANG, SIZE, LEAST, PREEMPTIBLE, estimates.EXPECTED, estimates.INTERVAL,
    parallelism.STATED,
    *(key for key in ties.ANNOTATIONS if key.startswith(OURS)),
)  # fmt: skip
"""Those of ours that are read of pods."""
OF_NODES = (notices.DRAIN_BY, notices.MAINTENANCE, notices.CORDONED)


_VALUES: dict[str, tuple[Callable[[str], bool], str]] = {
    estimates.EXPECTED: (
        lambda told: not told or estimates.parsed(told) > 0,
        "no duration such as 2h30m (of at most 100 years), or a number of seconds",
    ),
    estimates.INTERVAL: (
        estimates.is_interval,
        "no duration such as 30m (of at most 100 years), no number of seconds, and not never",
    ),
    PREEMPTIBLE: (lambda told: told in ("true", "false"), "neither true nor false"),
    parallelism.STATED: (
        lambda told: not told or bool(parallelism.parsed(told)),
        f"no sizes such as tensor=8,pipeline=4 (of {', '.join(parallelism.NAMES)}, no others)",
    ),
    LEAST: (lambda told: sizes.number(told) > 0, "no number above 0"),
}  # fmt: skip
"""Whether what an annotation says can be heeded, and else what it is not."""


def words(
    pods: Iterable[KubePod], above: Iterable[OwnerObject], job: KubeJob, topology: Topology
) -> tuple[str, ...]:  # fmt: skip
    """What is wrong with the annotations of a job's pods, and of their owners, in words."""
    of_pods = [pod.annotations for pod in pods]
    told = [*of_pods, *(owner.annotations for owner in above)]
    found = {word for notes in told if notes for word in _flaws(notes, topology)}
    if any(GANG in notes for notes in of_pods) and (whose := _who_wins(job)):
        found.add(f"annotation {GANG}: {whose} says which pods are one gang, it is not heeded")
    found.update(_of_gang(told, of_pods, job))
    found.update(_preferred(job, topology))
    return tuple(sorted(found))


def _of_gang(
    told: Iterable[Mapping[str, str]], of_pods: Iterable[Mapping[str, str]], job: KubeJob
) -> Iterator[str]:  # fmt: skip
    """Numbers of pods that cannot all be so."""
    size = sum(role.count for role in job.roles)
    least = max((sizes.number(notes.get(LEAST, "")) for notes in told), default=0)
    if job.roles and least > size:
        yield _found(LEAST, str(least), f"and its gang has {size} pod{'s' * (size != 1)}")
    named = {sizes.number(notes[SIZE]) for notes in of_pods if GANG in notes and SIZE in notes}
    if len(named) > 1 and job.key.group == groups.OWN:
        some = " and ".join(map(str, sorted(named)))
        yield f"annotation {SIZE} is {some} of pods of one gang: the largest counts"


def _preferred(job: KubeJob, topology: Topology) -> Iterator[str]:
    """Places that a pod group prefers, and that no tier of the policy is about."""
    for group in job.groups:
        for tie in group.ties:
            if not tie.is_required and ties.tier(topology, tie.told) is None:
                whose = f"the pod group `{group.namespace}/{group.name}` prefers one `{tie.told}`"
                yield f"{whose}, no tier of the policy ({_tiers(topology)}): it is not heeded"


def _who_wins(job: KubeJob) -> str:
    """What says which pods are one gang, whatever our annotation does; "": nothing does."""
    key = job.key
    if key.kind == "Pod" or key.group == groups.OWN:
        return ""
    if key.kind == "PodGroup":
        return f"the pod group `{key.shown}` ({key.group})"
    return f"the {key.kind} `{key.shown}`"


def _flaws(notes: Mapping[str, str], topology: Topology) -> Iterator[str]:
    for key in notes:
        if not key.startswith(OURS):
            continue
        value = notes[key]
        if key in _VALUES:
            is_ok, what = _VALUES[key]
            if not is_ok(value):
                yield _found(key, value, what)
        elif key == PREFERRED and value and ties.tier(topology, value) is None:
            yield _found(key, value, f"no tier of the policy ({_tiers(topology)})")
        elif key == SIZE and GANG not in notes:
            yield f"annotation {SIZE} without {GANG}: nobody knows of which gang"
        elif key in OF_NODES:
            yield f"annotation {key} is read of nodes: of a pod, or its owner, it is not heeded"
        elif key not in READ:
            yield f"annotation {key[:100]} is not read: {decoding.nearest(key, READ)}"


def _tiers(topology: Topology) -> str:
    return ", ".join(f"`{one.name}`" for one in topology.tiers) or "none"


def _found(key: str, value: str, what: str) -> str:
    return f"annotation {key} is `{value[:40]}`, {what}: it is not heeded"
