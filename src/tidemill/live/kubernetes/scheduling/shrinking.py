"""How many pods the owners of a gang want by now: seats beyond those are nobody's.

An owner that replaces a pod wants as many as before; one that was made smaller does not.
"""

from collections import Counter
from typing import NamedTuple

from tidemill.live.kubernetes.jobs import UnitKey
from tidemill.live.kubernetes.scheduling import declared, seats, sizes
from tidemill.live.kubernetes.scheduling.seats import Seat
from tidemill.live.kubernetes.scheduling.units import UnitNow
from tidemill.live.kubernetes.scheduling.view import ClusterView, PodUnit


class _PodsWanted(NamedTuple):
    """So many pods of each role; of one number: of all roles together."""

    counts: tuple[int, ...]
    is_sure: bool
    """Whether all that make pods of the gang are known; else one may be about to make some."""


def kept(
    view: ClusterView, unit: UnitKey, now: UnitNow, mine: Counter[Seat], seen: Counter[Seat],
    bare: tuple[int, ...] = (),
) -> tuple[Counter[Seat], bool]:  # fmt: skip
    """Of its seats those that a gang keeps, some of which no pod has; and whether that is sure.

    Of pods that nobody owns nobody makes another, but by hand. ``bare``: how many pods its last
    role has, if that is of pods without GPUs.
    """
    if all(pod.owner is None for pod, _ in now.held):
        return (mine if now.waits else seen), False
    told = _wanted(view, view.unit(unit))
    if told is None:
        return mine, True
    counts = (*told.counts, *bare)
    return seats.at_most(mine, seen, counts), told.is_sure


def _wanted(view: ClusterView, unit: PodUnit) -> _PodsWanted | None:
    """What the owners of a gang want; None: nobody says."""
    job = unit.job
    if templates := declared.templates(view.cluster, job):
        told = sum(part.count for part in templates if part.request.gpu is not None)
        is_all = bool(told) and told == job.size  # else some of its pods are of no template
        is_sure = job.owner is not None and job.owner.templates == templates
        return _PodsWanted(tuple(role.count for role in job.roles), is_sure) if is_all else None
    return _by_scale(view, unit) if unit.key.kind == "PodGroup" else None


def _by_scale(view: ClusterView, unit: PodUnit) -> _PodsWanted | None:
    """Of pods that name a group: what their one owner wants, but for those beyond the gang."""
    beyond = [view.pods[key] for key in view.beyond(unit.key)]
    beyond = [pod for pod in beyond if not pod.is_over and pod.request.gpu is not None]
    mine = [pod for pod in unit.pods if not pod.is_over and pod.request.gpu is not None]
    owner = sizes.scaled(view, unit.job.owner, [*mine, *beyond]) if mine else None
    if owner is None or owner.scale < 0:
        return None
    return _PodsWanted((max(owner.scale - len(beyond), 0),), is_sure=False)
