"""What a `Reason` of Slurm means: which layer owns it, the cause in plain words, what to do.

Slurm has one word for each way a job is kept out, about 180 in all; most are limits, made of whose
limit it is, over what, and of which resource (`AssocGrpGRES`, `QOSMaxCpuPerUserLimit`). Those are
read by their parts, the others stand in a table. Words that Slurm adds later are not guessed: they
have no layer. Each has a command that shows it and changes nothing; ``evidence`` fills in names.
"""

import re
from collections.abc import Iterable

from msgspec import Struct

from tidemill.live.slurm import hostlists, limits, states
from tidemill.live.slurm.limits import LimitNamed
from tidemill.live.slurm.rows import SlurmNode
from tidemill.model.reasons import LAYER_OF, Cause, Layer


class ReasonMeaning(Struct, frozen=True):
    """A reason, explained. ``layer`` is None for a word that is not known here."""

    reason: str
    layer: Layer | None
    words: str
    hint: str
    cause: Cause | None = None
    """The nearest of Tidemill's own causes, where there is one."""
    nodes: str | None = None
    """Nodes that Slurm names in it, folded."""
    is_waiting: bool = True
    """False: it says how a job ended, not why it waits."""
    look: str = ""
    """A command that shows it and changes nothing; names of the job are in curly brackets."""
    limit: LimitNamed | None = None
    """Which limit it is, where it is one."""


class _Known(Struct, frozen=True):
    layer: Layer
    words: str
    hint: str
    cause: Cause | None = None
    is_waiting: bool = True
    limit: LimitNamed | None = None


L1, L2, L3, L4 = Layer.RESERVATION, Layer.PROVISIONING, Layer.SCHEDULING, Layer.WORKLOAD

SHOW_JOB = "scontrol show job {job}"
SHOW_NODES = "scontrol show node {nodes}"
SHOW_PARTITION = "scontrol show partition {partition}"
SHOW_RIGHTS = "sacctmgr show assoc user={user} format=Account,User,Partition,QOS"
SHOW_QUEUE = (
    "squeue --partition={partition} --states=PENDING --sort=-p"
    " --Format=JobID,PriorityLong,UserName,QOS"
)
SHOW_RUNNING = (
    "squeue --partition={partition} --states=RUNNING --Format=JobID,TimeLeft,tres-alloc:60"
)
LOOKS = {
    "Resources": SHOW_RUNNING,
    "Priority": SHOW_QUEUE,
    "Dependency": "squeue --jobs={job} --Format=JobID,Dependency:80",
    "BeginTime": "squeue --jobs={job} --Format=JobID,EligibleTime,StartTime",
    "ReqNodeNotAvail": SHOW_NODES,
    "ReqNodeNotAvail, Reserved for maintenance": "scontrol show reservation",
    "Reservation": "scontrol show reservation {reservation}",
    "ReservationDeleted": "scontrol show reservation",
    "ReservationInvalid": "scontrol show reservation {reservation}",
    "PartitionNodeLimit": SHOW_PARTITION,
    "PartitionTimeLimit": SHOW_PARTITION,
    "PartitionDown": SHOW_PARTITION,
    "PartitionInactive": SHOW_PARTITION,
    "PartitionConfig": SHOW_PARTITION,
    "AccountNotAllowed": SHOW_PARTITION,
    "MaxMemPerLimit": SHOW_PARTITION,
    "BadConstraints": "scontrol --oneliner show node",
    "Constraints": "scontrol --oneliner show node",
    "Licenses": "scontrol show licenses",
    "InvalidQOS": SHOW_RIGHTS,
    "QOSNotAllowed": SHOW_PARTITION,
    "InvalidAccount": SHOW_RIGHTS,
    "AccountingPolicy": SHOW_RIGHTS,
    "NodeDown": "sinfo --list-reasons",
    "FrontEndDown": "sinfo --list-reasons",
}
"""Commands that show a reason; those of all others show the job."""
NODES_DOWN = (
    "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions"
)
LOOKS[NODES_DOWN] = "sinfo --list-reasons"


def _ours(cause: Cause, words: str, hint: str) -> _Known:
    """A reason that is one of Tidemill's own causes; the layer follows."""
    return _Known(LAYER_OF[cause], words, hint, cause)


def _ended(layer: Layer, words: str, hint: str) -> _Known:
    return _Known(layer, words, hint, None, is_waiting=False)


KNOWN: dict[str, _Known] = {
    "None": _ours(Cause.NONE, "not yet looked at", "wait for the next scheduling cycle"),
    "Resources": _ours(
        Cause.BUSY,
        "next in line, but not enough is free",
        "wait, ask for less, or free some: squeue --state=running -O JobID,TimeLeft,tres-alloc",
    ),
    "Priority": _ours(
        Cause.BEHIND,
        "held behind jobs of higher priority",
        "sprio shows what its priority is made of; a shorter time limit lets backfill start it",
    ),
    "Dependency": _Known(
        L4,
        "waits for another job that it depends on",
        "scontrol show job ID names it (Dependency=)",
    ),
    "DependencyNeverSatisfied": _Known(
        L4,
        "depends on a job that ended otherwise than it wants, so it never starts",
        "scontrol update job ID dependency= removes it; or cancel the job",
    ),
    "JobHeldUser": _Known(L4, "held by its user", "scontrol release ID"),
    "JobHeldAdmin": _Known(
        L3, "held by an administrator", "ask who runs the cluster; scontrol release ID as operator"
    ),
    "BeginTime": _Known(
        L4,
        "not to begin before a time; a requeued job waits about two minutes too",
        "scontrol show job ID says when (StartTime=); scontrol update job ID starttime=now",
    ),
    "ReqNodeNotAvail": _Known(
        L2,
        "a node that it requests is down, drained or reserved",
        "sinfo -R says why nodes are out; ask for other nodes, or wait for the repair",
        Cause.NOTHING_READY,
    ),
    "ReqNodeNotAvail, Reserved for maintenance": _Known(
        L2,
        "its time limit reaches into a maintenance window",
        "a shorter time limit lets it end before; scontrol show reservation says when",
    ),
    "ReqNodeNotAvail, May be reserved for other job": _ours(
        Cause.RESERVED,
        "nodes are free, but kept for a job that goes first",
        "a shorter time limit lets backfill start it before that",
    ),
    NODES_DOWN: _ours(
        Cause.NOT_ENOUGH_READY,
        "too few of its nodes are up, even if nothing else ran",
        "sinfo -R says why nodes are out",
    ),
    "Reservation": _Known(
        L1,
        "waits for the advance reservation that it requested",
        "scontrol show reservation says from when to when, and for whom",
    ),
    "ReservationDeleted": _Known(
        L1, "the reservation that it requested was deleted", "submit it without, or to another"
    ),
    "ReservationInvalid": _Known(
        L1, "the reservation that it requested is not usable", "scontrol show reservation"
    ),
    "PartitionNodeLimit": _Known(
        L4,
        "requests more nodes than its partition allows or has",
        "scontrol show partition says how many (MaxNodes, TotalNodes); nodes that are down count",
        Cause.IMPOSSIBLE_GANG,
    ),
    "PartitionTimeLimit": _Known(
        L4,
        "its time limit is longer than its partition allows",
        "submit it with a shorter one (scontrol show partition: MaxTime), or to another partition",
    ),
    "PartitionDown": _ours(
        Cause.NOTHING_READY,
        "its partition is DOWN",
        "ask who runs the cluster; or another partition",
    ),
    "PartitionInactive": _ours(
        Cause.NOTHING_READY,
        "its partition is INACTIVE",
        "ask who runs the cluster; or another partition",
    ),
    "PartitionConfig": _Known(
        L4,
        "its request contradicts the configuration of its partition",
        "scontrol show partition: who may use it, and how",
    ),
    "BadConstraints": _ours(
        Cause.IMPOSSIBLE_LABEL,
        "no node has what it requests together (features, GPUs per node, cores, memory)",
        "sinfo -o '%N %G %c %m %f' shows what nodes have; change the request",
    ),
    "Constraints": _ours(
        Cause.IMPOSSIBLE_LABEL, "no node has the features that it requests", "sinfo -o '%N %f'"
    ),
    "MaxMemPerLimit": _Known(
        L4, "requests more memory per node or CPU than its partition allows", "ask for less memory"
    ),
    "Licenses": _Known(L3, "not enough licences are free", "scontrol show licenses"),
    "InvalidQOS": _Known(
        L4, "its QOS does not exist or is not allowed to it", "sacctmgr show assoc user=NAME"
    ),
    "QOSNotAllowed": _Known(
        L4, "its QOS is not allowed in its partition or account", "sacctmgr show assoc user=NAME"
    ),
    "InvalidAccount": _Known(
        L4, "its account does not exist, or its user is not in it", "sacctmgr show assoc user=NAME"
    ),
    "AccountNotAllowed": _Known(
        L4, "its account may not use its partition", "scontrol show partition: AllowAccounts"
    ),
    "AccountingPolicy": _Known(
        L4, "a limit of its account or QOS keeps it out", "sacctmgr show assoc, sacctmgr show qos"
    ),
    "NodeDown": _ours(
        Cause.NOTHING_READY, "a node that it needs is down", "sinfo -R says which and why"
    ),
    "FrontEndDown": _ours(Cause.NOTHING_READY, "no front-end node is up", "sinfo -R"),
    "Prolog": _Known(
        L2, "its nodes are being prepared (prolog)", "wait; the log of slurmctld says more"
    ),
    "Cleaning": _Known(
        L3, "its last attempt is still being cleaned up", "wait; nodes in COMPLETING: sinfo -t comp"
    ),
    "JobArrayTaskLimit": _Known(
        L4,
        "its array runs as many tasks at once as it allows itself",
        "scontrol update job ID arraytaskthrottle=N raises that",
    ),
    "JobHoldMaxRequeue": _Known(
        L4,
        "held: requeued too often",
        "look why its attempts fail (sacct -D -j ID), then release it",
    ),
    "JobLaunchFailure": _Known(
        L2, "could not be launched on its nodes", "the log of slurmd there says why"
    ),
    "launch failed requeued held": _Known(
        L2,
        "could not be launched on its nodes, so it was requeued and is held",
        "the log of slurmd there says why; then scontrol release ID",
    ),
    "user env retrieval failed requeued held": _Known(
        L4,
        "the environment of its user could not be read, so it was requeued and is held",
        "look at the user's login scripts; then scontrol release ID",
    ),
    "SystemFailure": _Known(L2, "Slurm, a node or the network failed", "the log of slurmctld"),
    "SchedDefer": _Known(L3, "not yet looked at (defer)", "wait for the next scheduling cycle"),
    "FedJobLock": _Known(L3, "another cluster of the federation looks at it", "wait"),
    "BurstBufferResources": _Known(L3, "waits for space in a burst buffer", "scontrol show burst"),
    "BurstBufferStageIn": _Known(L4, "its data is being staged in", "scontrol show burst"),
    "BurstBufferOperation": _Known(L4, "its burst buffer failed", "scontrol show burst"),
    "PowerNotAvail": _Known(L2, "not enough power", "wait, or raise the power cap"),
    "PowerReserved": _Known(L2, "power is reserved for another job", "wait"),
    "QOSUsageThreshold": _Known(
        L3, "its account has used more than its share (usage threshold of its QOS)", "sshare"
    ),
    "NonZeroExitCode": _ended(
        L4, "ended with an exit code other than 0", "its own output says why"
    ),
    "RaisedSignal": _ended(L4, "ended by a signal", "its own output says why"),
    "TimeLimit": _ended(L4, "reached its time limit", "a longer limit, or checkpoints"),
    "InactiveLimit": _ended(L4, "did nothing for too long", "run it as a batch job"),
    "OutOfMemory": _ended(L4, "ran out of memory", "ask for more, or use less"),
    "DeadLine": _ended(L4, "could not end before its deadline", "submit it earlier"),
}
"""Words that are no limits, by how Slurm spells them."""

OLD_LIMITS = {
    "AssociationJobLimit": "AssocMaxJobsLimit",
    "AssociationResourceLimit": "AssocGrpUnknown",
    "AssociationTimeLimit": "AssocMaxWallDurationPerJobLimit",
    "QOSJobLimit": "QOSGrpJobsLimit",
    "QOSResourceLimit": "QOSGrpUnknown",
    "QOSTimeLimit": "QOSMaxWallDurationPerJobLimit",
}
"""What versions before 14.11 printed for limits."""

SENTENCES = {
    "Job's account not permitted to use this partition": "AccountNotAllowed",
    "Job's QOS not permitted to use this partition": "QOSNotAllowed",
}
"""Where squeue and scontrol print a sentence instead of the word."""

_LIMIT = re.compile(
    r"(?P<whose>Assoc|QOS|)(?P<over>Grp|Max|Min)(?P<what>[A-Za-z]+?)"
    r"(?P<minutes>RunMinutes|Minutes|Mins|)(?P<per>PerJob|PerNode|PerUser|PerAccount|)"
    r"(?:Limit|NotSatisfied|)"
)
_RESOURCES = {
    "GRES": "GPUs (GRES)",
    "Cpu": "CPUs",
    "CPU": "CPUs",
    "Mem": "memory",
    "Memory": "memory",
    "Node": "nodes",
    "Jobs": "running jobs",
    "SubmitJobs": "submitted jobs",
    "SubmitJob": "submitted jobs",
    "Wall": "run time",
    "WallDuration": "run time",
    "License": "licences",
    "Billing": "billing units",
    "Energy": "energy",
    "BB": "burst buffer",
    "Unknown": "some resource",
}
_WHOSE = {
    "Assoc": ("its account or user", "sacctmgr show assoc account=NAME"),
    "QOS": ("its QOS", "sacctmgr show qos NAME"),
    "": ("its QOS for one account", "sacctmgr show qos NAME"),
}
_NODES = re.compile(r"UnavailableNodes:(\S*)")


def meaning(
    reason: str,
    text: str | None = None,
    *,
    required: str | None = None,
    out: frozenset[str] | None = None,
) -> ReasonMeaning:
    """What a reason means; ``text`` is the sentence that some versions print beside it.

    ``required``: nodes that the job requests by name. ``out``: those that take no work
    (``nodes_out``), where that is known. Slurm calls a node *unavailable* also when other jobs fill
    it, and 24.11 says of a drained one that it may be reserved: with the facts, they decide.
    """
    for said in (text, reason):
        if said and (found := _meaning(said, reason)):
            return _by_facts(found, found.nodes or required, out)
    words = f"Slurm says `{reason}`, which is not in the list of its reasons known here"
    return ReasonMeaning(reason, None, words, "man squeue, section JOB REASON CODES")


def nodes_out(nodes: Iterable[SlurmNode]) -> frozenset[str]:
    """The nodes that take no work: down, drained, failed, in maintenance or not registered."""
    return frozenset(
        node.name
        for node in nodes
        if states.OUT.intersection({node.state, *(node.state_flags or "").split("+")})
    )


def _meaning(said: str, reason: str) -> ReasonMeaning | None:
    nodes = _NODES.search(said)
    plain = said.replace("_", " ") if "_" in said else said  # scontrol prints no blanks
    word = SENTENCES.get(plain.partition(" (")[0], plain.partition(",")[0].strip())
    known = KNOWN.get(plain) or KNOWN.get(word) or _limit(OLD_LIMITS.get(word, word))
    if known is None:
        return None
    named = nodes[1].rstrip(")") if nodes else None
    return ReasonMeaning(
        reason, known.layer, known.words, known.hint, known.cause, named or None, known.is_waiting,
        _look(plain, word, known), known.limit,
    )  # fmt: skip


def _by_facts(found: ReasonMeaning, nodes: str | None, out: frozenset[str] | None) -> ReasonMeaning:
    """A node that is not available is down or busy: told apart by what is known of it."""
    if out is None or not nodes or not found.reason.startswith("ReqNodeNotAvail"):
        return found
    if out.intersection(hostlists.expand(nodes)):
        known = KNOWN["ReqNodeNotAvail"]
    else:
        known = _ours(
            Cause.BUSY,
            "the nodes that it requests by name are up, but other jobs fill them or go first",
            "request no node by name, or wait",
        )
    return ReasonMeaning(
        found.reason, known.layer, known.words, known.hint, known.cause, nodes, look=SHOW_NODES
    )


def _look(said: str, word: str, known: _Known) -> str:
    """The command that shows a reason."""
    return limits.look(known.limit) if known.limit else LOOKS.get(said) or LOOKS.get(word, SHOW_JOB)


def _limit(word: str) -> _Known | None:
    """A limit, by its parts."""
    found = _LIMIT.fullmatch(word)
    if not found or (what := _RESOURCES.get(found["what"])) is None:
        return None
    whose, show = _WHOSE[found["whose"]]
    limit = limits.named(found["whose"], found["over"], found["what"],
                         minutes=found["minutes"], per=found["per"])  # fmt: skip
    if found["minutes"]:
        what = f"{what} × minutes"
    if found["over"] == "Min":
        words = f"requests fewer {what} than {whose} wants at least"
        return _Known(L4, words, f"ask for more, or use another QOS ({show})", limit=limit)
    if found["over"] == "Max" and _is_of_one_job(found):
        words = f"requests more {what} than {whose} allows to one job"
        return _Known(L4, words, f"ask for less; {show}", Cause.OVER_LIMIT_ALWAYS, limit=limit)
    users = " for one user" if found["per"] == "PerUser" else ""
    words = f"the maximum quota of {whose}{users} is reached: {what}"
    hint = f"wait until its other jobs end, or raise it ({show})"
    return _Known(LAYER_OF[Cause.OVER_LIMIT], words, hint, Cause.OVER_LIMIT, limit=limit)


def _is_of_one_job(found: re.Match[str]) -> bool:
    return found["per"] in {"PerJob", "PerNode"} or found["what"] == "WallDuration"
