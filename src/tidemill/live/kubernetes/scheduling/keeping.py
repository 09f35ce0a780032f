"""What the scheduler keeps beside its events: whom it holds and why, and why nodes are out."""

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from tidemill.journal import Journal, kept_facts, others_waiting, scheduled
from tidemill.journal import node_reasons as reasons_of_nodes
from tidemill.journal.deciders import DEFAULT
from tidemill.journal.node_reasons import NodeReason
from tidemill.journal.submissions import Submissions
from tidemill.live.kubernetes import jobs
from tidemill.live.kubernetes.jobs import UnitKey, alone
from tidemill.live.kubernetes.pods import KubePod
from tidemill.live.kubernetes.scheduling.differ import AT_WORK, Differ
from tidemill.live.kubernetes.scheduling.resizing import Resize
from tidemill.model.events import AskedEvict, AskedMove, Why
from tidemill.model.held import UnplacedJob
from tidemill.model.measures import count_text
from tidemill.model.states import JobState, NodeState
from tidemill.model.world import World

TWINS = "jobs_of_one_name"
LATE_MS = 2_000
"""What the events tell later than it was: the cluster has whole seconds, and a look takes time."""
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
        if why in AT_WORK:  # the others run
            gpus = sum(pod.request.gpu.each for pod in pods if pod.request.gpu)
        since_ms = min(pod.created_ms for pod in pods) - begins_ms
        is_counted = not any(
            (pod.lacks or pod.request.unread or pod.request.uncounted) and pod.request.gpu is None
            for pod in pods
        )
        yield UnplacedJob(
            differ.lives.name(unit), job.team or "unknown", gpus, why.reason, why.words, since_ms,
            is_counted, _above(differ, pods),
        )  # fmt: skip


def names(differ: Differ, journal: Journal) -> None:
    """Keep what jobs of one name are called, so that each is called the same after a restart."""
    lives = differ.lives
    told = kept_facts.read(journal.facts(), TWINS, dict[str, UnitKey], journal.where) or {}
    lives.recall(told)

    def keep() -> None:
        journal.set_meta(TWINS, msgspec.json.encode(lives.twins).decode())

    lives.on_twins = keep


def of_others(differ: Differ, begins_ms: int) -> Iterator[UnplacedJob]:
    """Pods of other schedulers that wait for GPUs: those decide, and ours does not plan them."""
    view = differ.view
    for pod in view.pods.values():
        if pod.node or pod.request.gpu is None or view.is_ours(pod) or pod.is_over:
            continue
        name = pod.request.scheduler or DEFAULT
        yield UnplacedJob(
            differ.lives.name(alone(pod)), view.shape_of(pod).team, pod.request.gpu.each,
            others_waiting.REASON,
            f"it waits for `{name}`, which decides for it", pod.created_ms - begins_ms,
            of=_above(differ, [pod]),
        )  # fmt: skip


def _above(differ: Differ, pods: Iterable[KubePod]) -> tuple[str, ...]:
    """What pods of one job belong to; of those with one owner it is asked once."""
    alike = {pod.owner: pod for pod in pods}
    found = (jobs.names_above(differ.view.cluster, pod) for pod in alike.values())
    return tuple(dict.fromkeys(name for names in found for name in names))


def submissions(differ: Differ, begins_ms: int) -> Submissions:
    """By job that came: how long before the journal began it was created, and bound by others.

    Of those alone that the events tell later than it was.
    """
    found, world = Submissions({}, {}), differ.world
    for j, created_ms, bound_ms in differ.seating.came:
        name, told_ms = world.job_names[j], world.jobs.submit_ms.item(j) + begins_ms - LATE_MS
        if created_ms < told_ms:
            found.submitted[name] = begins_ms - created_ms
        if bound_ms is not None and bound_ms < told_ms:
            found.placed[name] = begins_ms - bound_ms
    differ.seating.came.clear()
    return found


def node_reasons(differ: Differ) -> Iterator[NodeReason]:
    """Why nodes take no work, as the cluster says it."""
    world, state = differ.world, differ.world.nodes.state[: differ.world.node_count]
    is_out = (state != NodeState.READY) & (state != NodeState.GONE)
    for n in is_out.nonzero()[0].tolist():  # asked every second, of thousands of nodes
        node = differ.view.nodes.get(differ.lives.place_name(n))
        words = node.why_out() if node is not None else ""
        if words := words or world.node_words.get(n, ""):
            yield NodeReason(world.node_rows[n].name, world.nodes.since_ms.item(n), words)


def orders(differ: Differ, ordered: Iterable[UnitKey]) -> Iterator[tuple[str, str]]:
    """What autoscalers say of nodes that waiting jobs ordered, by the job."""
    world, now_ms = differ.world, differ.begins_ms + differ.world.now_ms
    for unit in ordered:
        j, pods = differ.lives.job(unit), differ.view.unit_pods(unit)
        if j is not None and world.jobs.state.item(j) == JobState.WAITING:
            name = world.job_names[j]
        else:
            name = differ.lives.name(unit) if unit in differ.held else ""
        if name and pods and (words := differ.view.ordered.words(pods[0].request, now_ms)):
            yield name, words


def facts(
    differ: Differ, jobs_held: Iterable[UnplacedJob], rules_of: Mapping[str, str],
    ordered: Iterable[UnitKey],
) -> dict[str, str]:  # fmt: skip
    """All that is kept beside the events: as things are now."""
    keepers = {differ.world.job_names[j]: by for j, by in differ.world.keepers.items()}
    return {
        **scheduled.facts(jobs_held, keepers, rules_of),
        **scheduled.order_facts(orders(differ, ordered)),
        **reasons_of_nodes.facts(node_reasons(differ)),
    }


def stopped_words(world: World, one: AskedEvict) -> tuple[str, str, str]:
    """The action, reason and note of the Event that pods get when their job is stopped."""
    if one.to_job >= 0:
        return "Preempting", "Preempted", _preempted_words(world, one.job, one.to_job)
    if one.why is Why.DRAINED:
        words = "its node, or one of its gang, is going to be taken: all of it is placed anew"
        return "Draining", "Drained", f"evicted: {words}"
    is_gang = sum(role.count for role in world.shape_of(one.job).roles) > 1
    place, all_of = ("a place of its gang", "all of it") if is_gang else ("its place", "it")
    words = f"{place} was taken by a pod of another scheduler, or is lost: {all_of} is placed anew"
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
    words = f"{'shrunk' if is_less else 'grown'} from {one.now} to {count_text(one.wanted, 'pod')}"
    if asked is not None and asked.to_job >= 0:
        return f"{words} to make room for job `{world.job_names[asked.to_job]}`"
    if asked is not None:
        return f"{words}: no job waits for what is free"
    return f"{words}: so many have a place"
