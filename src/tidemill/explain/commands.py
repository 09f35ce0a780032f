"""Commands: read-only lines that show a number at its source.

Each topic has one for Tidemill itself and, where they have a natural equal, some for Kubernetes and
for Slurm; those are marked by what they speak to, and are for people who run such a cluster.
Tidemill's own all take ``--journal`` and ``--at``; ``located`` writes them in.
"""

import re
import shlex
from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from tidemill.explain import podless
from tidemill.explain.answers import Answer, Certificate, Command, Fact, Forecast
from tidemill.journal import cluster_kinds
from tidemill.model import lives
from tidemill.model.measures import FOREVER_MS
from tidemill.model.rows import (
    BELOW,
    CLUSTER,
    COHORT,
    FEATURE,
    NODE_CLAIM,
    OF_FLAVOR,
    PARTITION,
    QUOTA_QUEUE,
    RESOURCE,
    SELECTED,
    Queue,
    Role,
)
from tidemill.model.states import NodeState
from tidemill.model.world import World

Commands = tuple[Command, ...]

_NODES = (
    Command("kubernetes", "kubectl describe nodes"),
    # without a width Slurm cuts what it prints after 20 characters
    Command("slurm", "sinfo -N -O NodeList:40,StateLong:20,Gres:80,GresUsed:80,CPUsState:20"
                     ",Memory:12,AllocMem:12"),
)  # fmt: skip
_IS_LABEL = re.compile(r"[A-Za-z0-9][-A-Za-z0-9_./]*")
_NO_LABELS = (CLUSTER, PARTITION, FEATURE, RESOURCE, "metadata.name")
"""What is asked of nodes of a cluster as if it were a label."""


def forecast_located(forecast: Forecast, journal: str, at: str | None) -> Forecast:
    """The same forecast, the commands of its answer with the journal and the moment."""
    answer = forecast.answer
    return forecast if answer is None else replace(forecast, answer=located(answer, journal, at))


def located(answer: Answer, journal: str, at: str | None) -> Answer:
    """The same answer, its commands with the journal and the moment that it is about."""
    where = f" -j {shlex.quote(journal)}" + (f" --at {shlex.quote(at)}" if at else "")
    questions = tuple(
        replace(question, evidence=_located(question.evidence, where))
        for question in answer.questions
    )
    return replace(answer, questions=questions, evidence=_located(answer.evidence, where))


def _located(facts: tuple[Fact, ...], where: str) -> tuple[Fact, ...]:
    return tuple(
        replace(fact, shown_by=tuple(
            replace(command, line=command.line + where) if command.on == "tidemill" else command
            for command in fact.shown_by
        ))
        for fact in facts
    )  # fmt: skip


def contracts(world: World) -> Commands:
    """What is claimed and what it costs. What contracts say no cluster knows; without any, what is
    claimed are its nodes.
    """
    shown = (*_NODES, *_machines(world)) if world.is_observed else ()
    return (_tidemill("fleet"), *shown)


def ready(world: World, job: str | None) -> Commands:
    """Which nodes take work; of machines that are no nodes yet, their claims."""
    return (*nodes(job), *_machines(world))


def _machines(world: World) -> Commands:
    """What shows machines that Karpenter launched and that have not joined the cluster."""
    states = world.nodes.state
    coming = (n for name, n in world.node_number.items() if name.startswith(NODE_CLAIM))
    if all(states[n] == NodeState.GONE for n in coming):
        return ()
    return (Command("kubernetes", "kubectl get nodeclaims.karpenter.sh"),)


def nodes(job: str | None) -> Commands:
    """Which nodes there are, their state and what is free on them; ``job``: one in the queue."""
    return (
        _tidemill("fleet --nodes" if job is None else f"why {shlex.quote(job)} --nodes"),
        *_NODES,
    )


def budgets() -> Commands:
    """Which disruption budgets there are, and how many pods each lets go."""
    return (_tidemill("fleet --nodes"), Command("kubernetes", "kubectl get pdb --all-namespaces"))


def labels(role: Role) -> Commands:
    """Which labels that a role asks for nodes carry, and which taints."""
    keys = sorted({key for key, _ in role.labels} | role.rules.keys)
    asked = [key for key in keys if _IS_LABEL.fullmatch(key) and not key.startswith(_NO_LABELS)]
    columns = "custom-columns=NAME:.metadata.name,TAINTS:.spec.taints"
    return (
        *(Command("kubernetes", f"kubectl get nodes -L {','.join(asked)}") for _ in asked[:1]),
        Command("kubernetes", f"kubectl get nodes -o {columns}"),
        *_devices(role, "resourceslices"),
        *(_NODES[:1] if len(asked) < len(keys) else ()),  # a resource, which nodes advertise
        Command("slurm", "sinfo -N -O NodeList:40,Partition:40,Features:200"),
    )


def claims(role: Role, name: str | None) -> Commands:
    """Which devices a job selects by its claims (DRA); none: it selects none."""
    namespace, slash, _ = (name or "").partition("/")
    of = f" -n {shlex.quote(namespace)}" if slash else " -A"
    return _devices(role, f"resourceclaims,resourceclaimtemplates{of}")


def _devices(role: Role, of: str) -> Commands:
    """What shows devices by claim, where a role asks for some of them."""
    is_of_some = any(SELECTED in key for key, _ in role.labels)
    return (Command("kubernetes", f"kubectl get {of} -o yaml"),) if is_of_some else ()


def line(world: World, asked: int = -1) -> Commands:
    """Who waits, in order; ``asked``: it is asked of this one, which must be among them."""
    return (
        _tidemill("pending"),
        *(Command("kubernetes", one) for one in podless.line(world, asked)),
        Command("slurm", "squeue --states=PENDING --sort=-p"),
    )


_HOLDS = (
    "NAMESPACE:.metadata.namespace,NAME:.metadata.name,NODE:.spec.nodeName"
    ",REQUESTS:.spec.containers[*].resources.requests,CLAIMS:.spec.resourceClaims[*].name"
)


def running() -> Commands:
    """What runs."""
    return (
        _tidemill("fleet --nodes"),
        Command(
            "kubernetes",
            "kubectl get pods -A --field-selector status.phase=Running -o"
            f" 'custom-columns={_HOLDS}'",
        ),
        Command("slurm", "squeue --states=RUNNING"),
    )


def team(world: World, name: str) -> Commands:
    """What a team uses and what it may use."""
    return (
        _tidemill("fleet --teams"),
        *_quota_of_kubernetes(world, name),
        Command("slurm", "sacctmgr -P show assoc format=Account,ParentName,User,GrpTRES,MaxTRES,QOS"
                         f" account={shlex.quote(name.removesuffix(BELOW))}"),
        Command("slurm", "sacctmgr -P show qos format=Name,GrpTRES,MaxTRESPA,MaxTRESPU"),
    )  # fmt: skip


def lending() -> Commands:
    """What each team lends of its guaranteed quota."""
    lines = "kubectl get clusterqueues.kueue.x-k8s.io -o yaml"
    return (_tidemill("fleet --teams"), Command("kubernetes", lines))


def _quota_of_kubernetes(world: World, name: str) -> Commands:
    """Whose quota a team has on such a cluster: of its namespace, or of its ClusterQueue.

    Those guarantee something, or are below a cohort. Quotas of a scheduler of ours are in its
    policy: an object of the cluster, or a file, which the cluster does not know.
    """
    if world.scheduler:
        found = world.rules_of.get("object", "")
        shown = f"kubectl get schedulingpolicy {shlex.quote(found)} -o yaml"
        return (Command("kubernetes", shown),) if found else ()
    q = world.queue_number.get(name)
    row = world.queue_rows[q] if q is not None else Queue(name)
    if world.is_observed and name.startswith(COHORT):
        return tuple(Command("kubernetes", one) for one in _of_cohort(world))
    is_queue = bool(row.parent) or any(share.floor_milli for share in row.shares)
    if world.is_observed and (is_queue or name.startswith(QUOTA_QUEUE)):
        queue = shlex.quote(name.removeprefix(QUOTA_QUEUE).partition(OF_FLAVOR)[0])
        shown = f"kubectl describe clusterqueues.kueue.x-k8s.io {queue}"
        return (Command("kubernetes", shown),)
    return (Command("kubernetes", f"kubectl describe resourcequota -n {shlex.quote(name)}"),)


_COHORTS = (
    "NAME:.metadata.name,PARENT:.spec.parentName"
    ",QUOTAS:.spec.resourceGroups[*].flavors[*].resources[*].nominalQuota"
    ",BORROWS:.spec.resourceGroups[*].flavors[*].resources[*].borrowingLimit"
)
_CLUSTER_QUEUES = (  # until v1beta2 the cohort had another name
    "NAME:.metadata.name,COHORT:.spec.cohortName,COHORT:.spec.cohort"
    ",RESOURCES:.spec.resourceGroups[*].flavors[*].resources[*].name"
    ",QUOTAS:.spec.resourceGroups[*].flavors[*].resources[*].nominalQuota"
)


def _of_cohort(world: World) -> Iterator[str]:
    """What shows the quotas of cohorts: those of all queues, and their own, where one is an object;
    many are but names that queues say.
    """
    yield f"kubectl get clusterqueues.kueue.x-k8s.io -o 'custom-columns={_CLUSTER_QUEUES}'"
    if any(_is_object(world, row) for row in world.queue_rows if row.name.startswith(COHORT)):
        yield f"kubectl get cohorts.kueue.x-k8s.io -o 'custom-columns={_COHORTS}'"


def _is_object(world: World, row: Queue) -> bool:
    """Whether a cohort has what only an object says: something above it, or quotas of its own."""
    below = [share for one in world.queue_rows if one.parent == row.name for share in one.shares]
    is_bound = any(share.lend_milli < FOREVER_MS for share in row.shares)
    own = sum(share.floor_milli for share in row.shares)
    return bool(row.parent) or is_bound or own > sum(share.floor_milli for share in below)


def held(name: str) -> Commands:
    """What a scheduler of ours said of the pods of a job that it holds."""
    namespace, slash, _ = name.partition("/")
    of = f" -n {shlex.quote(namespace)}" if slash else ""
    said = f"kubectl get events{of} --field-selector reason=FailedScheduling"
    return (_tidemill(f"why {shlex.quote(name)}"), Command("kubernetes", said))


def quota_words(world: World) -> str:
    """Where quotas are that no command shows; "": one does."""
    found = world.rules_of.get("file", "")
    return f" (policy file `{found}`)" if found else ""


def proof(world: World, found: Certificate, role: Role, job: str | None) -> Commands:
    """What shows that something never fits: the quota, the nodes or the labels it is about."""
    match found.constraint:
        case "limit":
            return team(world, found.team)
        case "lending limit":
            return team(world, found.team) if world.scheduler else lending()
        case "label":
            return labels(role)
    return nodes(job)


def rules(world: World, name: str | None) -> Commands:
    """What a job in the queue requires of its nodes."""
    return _of_job(world, name, "SELECTS:.spec.nodeSelector,REQUIRES:.spec.affinity.nodeAffinity"
                                ",TOLERATES:.spec.tolerations")  # fmt: skip


_PLACED = (
    "NAME:.metadata.name,NODE:.spec.nodeName,LABELS:.metadata.labels"
    ",PORTS:.spec.containers[*].ports[*].hostPort"
    ",APART:.spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution"
)
_VOLUMES = "NAME:.metadata.name,CLAIM:.spec.claimRef.name,NODES:.spec.nodeAffinity.required"


def pods(names: Iterable[str]) -> Commands:
    """Where pods are, and by what rules others are near them or not: namespace, slash, name."""
    split = [name.partition("/") for name in names]
    return tuple(
        Command("kubernetes", f"kubectl get pod -n {shlex.quote(namespace)} {shlex.quote(name)}"
                              f" -o 'custom-columns={_PLACED}'")
        for namespace, _, name in split
    )  # fmt: skip


def volumes(namespace: str, names: Iterable[str] = ()) -> Commands:
    """Claims of volumes, and on which nodes volumes can be used; no names: all claims there are."""
    of, pv = shlex.quote(namespace), f"kubectl get pv -o 'custom-columns={_VOLUMES}'"
    lines = [f"kubectl get pvc -n {of} {shlex.quote(name)} -o wide" for name in names]
    lines = [*lines, pv] if lines else [f"kubectl get pvc -n {of}"]
    return tuple(Command("kubernetes", line) for line in lines)


def places(labels: Iterable[str]) -> Commands:
    """The places of nodes by these labels."""
    keys = "".join(f" -L {shlex.quote(key)}" for key in labels)
    return (Command("kubernetes", f"kubectl get nodes{keys}"),)


def job(world: World, name: str | None) -> Commands:
    """What a job in the queue requests, and where it is; of one that is not submitted, whoever
    asks has said it.
    """
    return _of_job(world, name, "PHASE:.status.phase,NODE:.spec.nodeName"
                                ",REQUESTS:.spec.containers[*].resources.requests"
                                ",CLAIMS:.spec.resourceClaims[*].name")  # fmt: skip


def _of_job(world: World, name: str | None, columns: str) -> Commands:
    if name is None:
        return ()
    told = lives.origin(cluster_kinds.of_job(world, name).name, world.job_number)
    namespace, slash, _ = told.partition("/")
    pods = f"kubectl describe pod {shlex.quote(told)}"
    j = world.job_number.get(name)
    if j is not None and (above := podless.above(world, j)) is not None:
        pods = podless.job(above, columns)
    elif slash:  # as histories of Kubernetes name jobs, which are more than one pod
        asked = f"-o 'custom-columns=NAME:.metadata.name,{columns}'"
        pods = f"kubectl get pods -n {shlex.quote(namespace)} {asked}"
    return (
        _tidemill(f"why {shlex.quote(name)}"),
        Command("kubernetes", pods),
        Command("slurm", f"scontrol show job {shlex.quote(told)}"),
    )


def _tidemill(arguments: str) -> Command:
    return Command("tidemill", f"tidemill {arguments}")
