"""What the scheduler keeps beside its events: whom it holds and why, and why nodes are out."""

from collections.abc import Iterable, Iterator

from tidemill.journal.node_reasons import NodeReason
from tidemill.live.kubernetes.scheduling.differ import Differ
from tidemill.live.kubernetes.scheduling.resizing import Resize
from tidemill.model.events import AskedEvict, AskedMove, Why
from tidemill.model.held import UnplacedJob
from tidemill.model.states import NodeState
from tidemill.model.world import World

SHORT = (
    "pods of this gang are gone and nobody makes them anew: their seats are free for others, and"
    " the rest of it holds its own; delete the rest, or give the pods an owner that makes them anew"
)


def held(differ: Differ, begins_ms: int) -> Iterator[UnplacedJob]:
    """Jobs that are not placed whatever is free."""
    for unit, why in differ.held.items():
        pods = [pod for pod in differ.view.unit_pods(unit) if pod.is_pending]
        if not pods:
            continue
        job = differ.view.unit(unit).job
        gpus = sum(role.count * role.request.gpu.each for role in job.roles if role.request.gpu)
        since_ms = min(pod.created_ms for pod in pods) - begins_ms
        name = differ.lives.name(unit)
        yield UnplacedJob(name, job.team or "unknown", gpus, why.reason, why.words, since_ms)


def submitted_before(differ: Differ, came: Iterable[int], begins_ms: int) -> dict[str, int]:
    """By job, how long before the journal began those were created that came with this look."""
    found, world = dict[str, int](), differ.world
    for j in came:
        pods = [pod for pod in differ.view.unit_pods(differ.unit_of[j]) if pod.is_pending]
        first_ms = min((pod.created_ms for pod in pods), default=begins_ms) - begins_ms
        if pods and first_ms < world.jobs.submit_ms.item(j):
            found[world.job_names[j]] = -first_ms
    return found


def node_reasons(differ: Differ) -> Iterator[NodeReason]:
    """Why nodes take no work, as the cluster says it."""
    world = differ.world
    for name, node in differ.view.nodes.items():
        n = differ.lives.node_number(name)
        if n is not None and world.nodes.state.item(n) != NodeState.READY and (
            words := node.why_out()
        ):  # fmt: skip
            yield NodeReason(world.node_rows[n].name, world.nodes.since_ms.item(n), words)


def stopped_words(world: World, one: AskedEvict) -> tuple[str, str, str]:
    """The action, reason and note of the Event that pods get when their job is stopped."""
    if one.to_job >= 0:
        return "Preempting", "Preempted", _preempted_words(world, one.job, one.to_job)
    if one.why is Why.DRAINED:
        words = "its node, or one of its gang, is going to be taken: all of it is placed anew"
        return "Draining", "Drained", f"evicted: {words}"
    words = "not all of its gang has a place where it is: all of it is placed anew"
    return "Repacking", "Repacked", f"evicted: {words}"


def _preempted_words(world: World, j: int, heir: int) -> str:
    """For whom a job was stopped."""
    mine, theirs = world.shape_of(j), world.shape_of(heir)
    by = f"job `{world.job_names[heir]}` of team `{theirs.team}`"
    if mine.team == theirs.team:
        return f"evicted to make room for {by}: priority {theirs.priority} is above {mine.priority}"
    return f"evicted to make room for {by}, which its guaranteed quota entitles to it"


def resized_words(world: World, one: Resize, asked: AskedMove | None) -> str:
    """From how many pods to how many a gang goes, and for whom or why."""
    is_less = one.wanted < one.now
    words = f"{'shrunk' if is_less else 'grown'} from {one.now} to {one.wanted} pods"
    if asked is not None and asked.to_job >= 0:
        return f"{words} to make room for job `{world.job_names[asked.to_job]}`"
    if asked is not None:
        return f"{words}: no job waits for what is free"
    return f"{words}: so many have a place"
