"""What kind of cluster a journal tells of, and so whose commands show what it says: a fact of it.

Whoever writes a journal from what a cluster shows keeps the fact: by cluster its kind, and of a
journal of one cluster that under "". Nobody's scheduler, as in a table of jobs or a simulation:
none. Journals of before this fact have it in their name, where an observer or a scheduler wrote
them.
"""

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

from tidemill.journal import kept_facts
from tidemill.journal.source import Source
from tidemill.model.world import World

FACT = "cluster_kinds"
KUBERNETES, SLURM = "kubernetes", "slurm"
_KINDS = (KUBERNETES, SLURM)
_NAMED = re.compile(r"(?:^|, )(.+?) \((kubernetes|slurm)\)(?=, |$)")
"""As observers of several clusters named their journals: `east (slurm), west (kubernetes)`."""


class JobsCluster(NamedTuple):
    """Where a job is."""

    kind: str
    """`kubernetes` or `slurm`; "": nobody says."""
    cluster: str
    """The one of several; "": there is one."""
    name: str
    """What the job is called there."""


def facts(kinds: Mapping[str, str]) -> dict[str, str]:
    """What is kept of it."""
    return {FACT: msgspec.json.encode(dict(kinds), order="sorted").decode()}


def by_cluster(kept: Mapping[str, str], where: str) -> dict[str, str]:
    """The kinds that a journal's facts tell, by cluster."""
    found = kept_facts.read(kept, FACT, dict[str, str], where)
    if found is not None:
        return found
    name = kept.get("name", "")
    if Source.of(kept).is_simulated:
        return {}
    return {"": name} if name in _KINDS else dict(_NAMED.findall(name))


def put_back(world: World, kept: Mapping[str, str], where: str) -> World:
    """A cluster state that knows what kind of cluster it is of."""
    world.cluster_kinds = by_cluster(kept, where)
    return world


def of_job(world: World, job: str) -> JobsCluster:
    """The cluster of a job by its name, which begins with that of several."""
    kinds = world.cluster_kinds
    for cluster in sorted(kinds, key=len, reverse=True):
        if cluster and job.startswith(f"{cluster}/"):
            return JobsCluster(kinds[cluster], cluster, job.removeprefix(f"{cluster}/"))
    return JobsCluster(_same(kinds.values()), "", job)


def of_all(world: World, cluster: str = "") -> str:
    """The kind of a cluster, or that of all of them; "": nobody says, or there are several."""
    return world.cluster_kinds.get(cluster) or _same(world.cluster_kinds.values())


def _same(kinds: Iterable[str]) -> str:
    found = {*kinds}
    return found.pop() if len(found) == 1 else ""
