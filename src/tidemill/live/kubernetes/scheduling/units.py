"""The pods of one job of ours as the cluster shows them now, and seats that are to be filled."""

from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from msgspec.structs import replace

from tidemill.engine.fold import queues
from tidemill.live.history.attempts import LONGEST_NAME
from tidemill.live.history.rows import AttemptEnd
from tidemill.live.kubernetes.pods import KubePod
from tidemill.live.kubernetes.scheduling.estimates import UNTOLD
from tidemill.live.kubernetes.scheduling.seats import Seat
from tidemill.live.kubernetes.scheduling.shapes import Unplaceable
from tidemill.live.kubernetes.scheduling.sizes import OwnerScale
from tidemill.live.kubernetes.scheduling.view import Key
from tidemill.model import events as ev
from tidemill.model import lives
from tidemill.model.rows import Checkpointing, Job, Queue, Shape
from tidemill.model.states import ACTIVE, JobState
from tidemill.model.world import World

_ITSELF = " (itself)"
"""After the name of a team with others below it: what was bound of it although it has no jobs."""


class Vacant(NamedTuple):
    """A seat that a gang holds by our plan, and the pod that is to be bound to it."""

    job: int
    key: Key
    uid: str
    node: str
    place: str = ""
    """The part of that node."""
    devices: int = 0
    """Those of it that the plan gives the pod, by number."""


class UnitNow(NamedTuple):
    """The pods of a job of ours: those that hold something, and those that could be bound now."""

    shape: Shape | Unplaceable
    held: list[tuple[KubePod, Seat]]
    waits: list[tuple[KubePod, int]]
    """With the number of their role."""
    is_complete: bool
    """Whether all of its pods wait, and none of them holds anything."""
    is_lost: bool
    """Whether a pod of it sits on a node that is not known."""
    end: AttemptEnd | None
    """How it ended; None: it has not."""
    hold: Unplaceable | None = None
    """Why it is not placed whatever is free; None: nothing keeps it, or nothing of it waits."""
    estimate_ms: int = 0
    saving: Checkpointing = UNTOLD
    scale: OwnerScale | None = None
    """Of an elastic gang: whose scale says how many pods it has."""


def as_held(now: UnitNow, shape: Shape) -> Shape:
    """What pods hold that somebody bound although we would not have; ``shape``: of one of them."""
    roles, counts = max(r for _, (r, _) in now.held) + 1, Counter(r for _, (r, _) in now.held)
    return replace(
        shape, roles=tuple(replace(shape.roles[0], count=counts[r] or 1) for r in range(roles))
    )


def as_told(now: UnitNow, shape: Shape) -> UnitNow:
    """With the roles that a job was told to have: one beyond them counts as one that requests as
    much, or as the last. What a claim with a choice comes to may differ from look to look.
    """
    last = len(shape.roles) - 1
    if all(r <= last for r in (*(r for _, (r, _) in now.held), *(r for _, r in now.waits))):
        return now
    shown = now.shape.roles if isinstance(now.shape, Shape) else ()
    told = [role.accelerators for role in shape.roles]

    def mine(r: int) -> int:
        each = shown[r].accelerators if r < len(shown) else -1
        return r if r <= last else told.index(each) if each in told else last

    return now._replace(
        held=[(pod, (mine(r), n)) for pod, (r, n) in now.held],
        waits=[(pod, mine(r)) for pod, r in now.waits],
    )


def comes_back(now: UnitNow) -> bool:
    """Whether somebody makes the pods of a job anew; others would be gone for ever."""
    return all(pod.owner is not None for pod, _ in now.held)


def may_be_stopped(alive: Sequence[tuple[KubePod, int]]) -> bool:
    """Whether a job may be stopped for another: somebody makes its pods anew, or they say so."""
    return all(pod.may_be_stopped for pod, _ in alive)


def key_of(pod: KubePod) -> Key:
    return pod.namespace, pod.name


_NUMBERS = (
    "batch.kubernetes.io/job-completion-index", "apps.kubernetes.io/pod-index",
    "training.kubeflow.org/replica-index", "leaderworkerset.sigs.k8s.io/worker-index",
)  # fmt: skip
"""Labels with the number of a pod in its gang; of others it is at the end of their names."""
_MOST_DIGITS = 9


def in_gang(pod: KubePod) -> tuple[int, int, str]:
    """Pods of a gang in the order of their numbers, so that neighbours sit together."""
    told = next((pod.labels[key] for key in _NUMBERS if key in pod.labels), "")
    job = pod.labels.get("jobset.sigs.k8s.io/job-global-index", "")
    return _number(job), _number(told or pod.name.rpartition("-")[2]), pod.name


def _number(told: str) -> int:
    return int(told) if told.isdecimal() and len(told) <= _MOST_DIGITS else 0


def end_of(pods: Iterable[KubePod]) -> AttemptEnd:
    """How a job ended of which no pod is left: as the first of its pods that did not end well."""
    ends = [pod.outcome for pod in pods if pod.is_over]
    bad = [one for one in ends if one is not AttemptEnd.DONE]
    return bad[0] if bad else AttemptEnd.DONE if ends else AttemptEnd.CANCELLED


def new_job(name: str, shape: Shape, estimate_ms: int = 0, saving: Checkpointing = UNTOLD) -> Job:
    """A job; where nobody says whether it saves, what a stop of it loses is unknown."""
    return Job(name, shape, estimate_ms, checkpointing=saving)


def new_team(world: World, at_ms: int, team: str) -> Iterator[ev.Event]:
    """A team that nobody declared has no quota."""
    if team not in world.queue_number:
        above = team.removesuffix(_ITSELF)
        is_below = above != team and above in world.queue_number
        yield ev.QueueSet(at_ms, Queue(team, parent=above if is_below else ""))


def teams_below(world: World, team: str) -> list[str]:
    """The teams that a policy puts under another one, by name."""
    q = world.queue_number.get(team)
    if q is None or world.tree.is_leaf[q]:
        return []
    return sorted(
        row.name for row in world.queue_rows
        if row.parent == team and not row.name.endswith(_ITSELF)
    )  # fmt: skip


def booked(world: World, shape: Shape) -> Shape:
    """What something that holds its place is booked as: a team above others has no jobs.

    It counts as one of those below it, so that the quota above it knows of it.
    """
    if not teams_below(world, shape.team):
        return shape
    return replace(shape, team=f"{shape.team[: LONGEST_NAME - len(_ITSELF)]}{_ITSELF}")


def team_events(
    world: World, at_ms: int, wanted: Sequence[Queue], ours: Callable[[], Container[str]]
) -> Iterator[ev.Event]:  # fmt: skip
    """Bring the teams to what a policy says; nothing, as long as a job keeps it from that.

    Where a team gets others below it, its jobs that wait are no jobs any more (they are held), and
    pods of other schedulers are to be told again, of the team below it that they count in then.
    """
    if in_the_way(world, wanted, ours) is not None:
        return
    for j in own_jobs(world, wanted):
        yield ev.JobCancelled(at_ms, j)
    for queue in team_changes(world, wanted):
        yield ev.QueueSet(at_ms, queue)


def own_jobs(world: World, wanted: Iterable[Queue]) -> list[int]:
    """The jobs of teams that a policy puts above others, the oldest first of each."""
    above = sorted({queue.parent for queue in wanted} - {""})
    return [j for team in above for j in queues.jobs_of_its_own(world, team)]


def in_the_way(
    world: World, wanted: Iterable[Queue], ours: Callable[[], Container[str]]
) -> int | None:  # fmt: skip
    """A job of ours that runs, of a team that a policy puts above others; None: there is none.

    ``ours``: the names of all jobs of ours, as the cluster calls them.
    """
    active = [j for j in own_jobs(world, wanted) if JobState(world.jobs.state.item(j)) in ACTIVE]
    names = ours() if active else ()
    mine = (j for j in active if lives.origin(world.job_names[j], world.job_number) in names)
    return next(mine, None)


def team_changes(world: World, wanted: Iterable[Queue]) -> Iterator[Queue]:
    """What to set so that teams are as a policy says: one that it does not name has no quota.

    Whoever asks sets each before the next.
    """
    rows = {queue.name: queue for queue in wanted}
    above = {queue.parent for queue in rows.values()}
    for row in world.queue_rows:
        stays = row.name.endswith(_ITSELF) and row.parent in above
        bare = Queue(row.name, parent=row.parent if stays else "")
        if row.name not in rows and row != bare:
            yield bare
    for name, queue in rows.items():
        known = world.queue_number.get(name)
        if known is None or world.queue_rows[known] != queue:
            yield queue


def note(known: dict[Any, None], key: Any, *, is_so: bool) -> None:  # noqa: ANN401 - of any kind
    """Remember a key as long as something is so of it."""
    if is_so:
        known[key] = None
    else:
        known.pop(key, None)
