"""What a `Reason` of Slurm means: which layer owns it, and the cause in plain words.

Slurm has one word for each way a job is kept out, about 180 in all; most are limits, made of whose
limit it is, over what, and of which resource (`AssocGrpGRES`, `QOSMaxCpuPerUserLimit`). Those are
read by their parts, the others stand in a table. Words that Slurm adds later are not guessed: they
have no layer. Each has a command that shows it and changes nothing; ``evidence`` fills in names.
"""

import re
from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from tidemill.live.slurm import hostlists, limits, states
from tidemill.live.slurm.limits import LimitNamed
from tidemill.live.slurm.rows import SlurmNode
from tidemill.model import reasons as kept
from tidemill.model.reasons import CLOSED, LAYER_OF, UNDECIDED, Cause, Layer


class ReasonMeaning(Struct, frozen=True):
    """A reason, explained. ``layer`` is None for a word that is not known here."""

    reason: str
    layer: Layer | None
    words: str
    cause: Cause | None = None
    """The nearest of Tidemill's own causes, where there is one."""
    nodes: str | None = None
    """Nodes that Slurm names in it, or that the job requests by name, folded."""
    usable: str | None = None
    """Nodes of its partitions, where none is named and the reason is about nodes."""
    look: str = ""
    """A command that shows it and changes nothing; names of the job are in curly brackets."""
    limit: LimitNamed | None = None
    """Which limit it is, where it is one."""
    is_block: bool = False
    """Whether it keeps a job out whatever nodes and GPUs are free, until something else changes."""

    @property
    def is_gpu_quota(self) -> bool:
        """Whether it is a limit of the GPUs of an account, as quotas of teams are."""
        return self.limit is not None and (self.limit.tres, self.limit.column) in _GPU_QUOTAS


_GPU_QUOTAS = (("gres/", "GrpTRES"), ("gres/", "MaxTRESPA"))


class _Known(Struct, frozen=True):
    layer: Layer
    words: str
    cause: Cause | None = None
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


def _ours(cause: Cause, words: str) -> _Known:
    """A reason that is one of Tidemill's own causes; the layer follows."""
    return _Known(LAYER_OF[cause], words, cause)


KNOWN: dict[str, _Known] = {
    "None": _ours(Cause.NONE, "not yet looked at"),
    "Resources": _ours(Cause.BUSY, "next in line, but not enough is free"),
    "Priority": _ours(Cause.BEHIND, "held behind jobs of higher priority"),
    "Dependency": _Known(L4, "waits for another job that it depends on"),
    "DependencyNeverSatisfied": _Known(
        L4, "depends on a job that ended otherwise than it wants, so it never starts"
    ),
    "JobHeldUser": _Known(L4, "held by its user"),
    "JobHeldAdmin": _Known(L3, "held by an administrator"),
    "BeginTime": _Known(
        L4, "not to begin before a time; a requeued job waits about two minutes too"
    ),
    "ReqNodeNotAvail": _Known(
        L2, "a node that it requests is down, drained or reserved", Cause.NOTHING_READY
    ),
    "ReqNodeNotAvail, Reserved for maintenance": _Known(
        L2, "its time limit reaches into a maintenance window"
    ),
    "ReqNodeNotAvail, May be reserved for other job": _ours(
        Cause.RESERVED, "nodes are free, but kept for a job that goes first"
    ),
    NODES_DOWN: _ours(
        Cause.NOT_ENOUGH_READY,
        "nodes that it needs are down, drained, or kept for jobs of a partition that goes first",
    ),
    "Reservation": _Known(L1, "waits for the advance reservation that it requested"),
    "ReservationDeleted": _Known(L1, "the reservation that it requested was deleted"),
    "ReservationInvalid": _Known(L1, "the reservation that it requested is not usable"),
    "PartitionNodeLimit": _Known(
        L4, "requests more nodes than its partition allows or has", Cause.IMPOSSIBLE_GANG
    ),
    "PartitionTimeLimit": _Known(L4, "its time limit is longer than its partition allows"),
    "PartitionDown": _ours(Cause.NOTHING_READY, "its partition is DOWN"),
    "PartitionInactive": _ours(Cause.NOTHING_READY, "its partition is INACTIVE"),
    "PartitionConfig": _Known(L4, "its request contradicts the configuration of its partition"),
    "BadConstraints": _ours(
        Cause.IMPOSSIBLE_LABEL,
        "no node has what it requests together (features, GPUs per node, cores, memory)",
    ),
    "Constraints": _ours(Cause.IMPOSSIBLE_LABEL, "no node has the features that it requests"),
    "MaxMemPerLimit": _Known(L4, "requests more memory per node or CPU than its partition allows"),
    "Licenses": _Known(L3, "not enough licences are free"),
    "InvalidQOS": _Known(L4, "its QOS does not exist or is not allowed to it"),
    "QOSNotAllowed": _Known(L4, "its QOS is not allowed in its partition or account"),
    "InvalidAccount": _Known(L4, "its account does not exist, or its user is not in it"),
    "AccountNotAllowed": _Known(L4, "its account may not use its partition"),
    "AccountingPolicy": _Known(L4, "a limit of its account or QOS keeps it out"),
    "NodeDown": _ours(Cause.NOTHING_READY, "a node that it needs is down"),
    "FrontEndDown": _ours(Cause.NOTHING_READY, "no front-end node is up"),
    "Prolog": _Known(L2, "its nodes are being prepared (prolog)"),
    "Cleaning": _Known(L3, "its last attempt is still being cleaned up"),
    "JobArrayTaskLimit": _Known(L4, "its array runs as many tasks at once as it allows itself"),
    "JobHoldMaxRequeue": _Known(L4, "held: requeued too often"),
    "JobLaunchFailure": _Known(L2, "could not be launched on its nodes"),
    "launch failed requeued held": _Known(
        L2, "could not be launched on its nodes, so it was requeued and is held"
    ),
    "job requeued in held state": _Known(L4, "requeued, and held"),
    "user env retrieval failed requeued held": _Known(
        L4, "the environment of its user could not be read, so it was requeued and is held"
    ),
    "SystemFailure": _Known(L2, "Slurm, a node or the network failed"),
    "SchedDefer": _Known(L3, "not yet looked at (defer)"),
    "FedJobLock": _Known(L3, "another cluster of the federation looks at it"),
    "BurstBufferResources": _Known(L3, "waits for space in a burst buffer"),
    "BurstBufferStageIn": _Known(L4, "its data is being staged in"),
    "BurstBufferOperation": _Known(L4, "its burst buffer failed"),
    "PowerNotAvail": _Known(L2, "not enough power"),
    "PowerReserved": _Known(L2, "power is reserved for another job"),
    "QOSUsageThreshold": _Known(
        L3, "its account has used more than its share (usage threshold of its QOS)"
    ),
    "NonZeroExitCode": _Known(L4, "ended with an exit code other than 0"),
    "RaisedSignal": _Known(L4, "ended by a signal"),
    "TimeLimit": _Known(L4, "reached its time limit"),
    "InactiveLimit": _Known(L4, "did nothing for too long"),
    "OutOfMemory": _Known(L4, "ran out of memory"),
    "DeadLine": _Known(L4, "could not end before its deadline"),
}
"""Words that are no limits, by how Slurm spells them."""

BLOCKS = CLOSED | {"PartitionNodeLimit"} | {
    word for word, known in KNOWN.items() if known.cause is None and word not in UNDECIDED
}  # fmt: skip
"""Of these words those that keep a job out whatever nodes and GPUs are free; so do all limits.

What the fleet has, who goes first and what is not looked at yet (`Resources`, `Priority`, `None`)
are none: another scheduler may decide otherwise."""

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
    r"(?P<minutes>RunMinutes|RunMins|Minutes|Mins|)(?P<per>PerJob|PerNode|PerUser|PerAccount|)"
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
    "Assoc": "its account or user",
    "QOS": "its QOS",
    "": "its QOS for one account",
}
_NODES = re.compile(r"UnavailableNodes:(\S*)")


def meaning(
    reason: str,
    text: str | None = None,
    *,
    required: str | None = None,
    usable: str | None = None,
    out: frozenset[str] | None = None,
) -> ReasonMeaning:
    """What a reason means; ``text`` is the sentence that some versions print beside it.

    ``required``: nodes that the job requests by name; ``usable``: those of its partitions. ``out``:
    those that take no work (``nodes_out``), where that is known. Slurm calls a node *unavailable*,
    and says that nodes are *down, drained or reserved*, also when other jobs fill them, and 24.11
    says of a drained one that it may be reserved: with the facts, they decide.
    """
    for said in (text, reason):
        if said and (found := _meaning(said, reason)):
            if found.cause is Cause.NOT_ENOUGH_READY:
                return _up_or_out(found, required, usable, out)
            return _by_facts(found, required, usable, out)
    words = f"Slurm says `{reason}`, which is not in the list of its reasons known here"
    return ReasonMeaning(reason, None, words)


def nodes_out(nodes: Iterable[SlurmNode]) -> frozenset[str]:
    """The nodes that take no work: down, drained, failed, in maintenance or not registered."""
    return frozenset(
        node.name
        for node in nodes
        if states.OUT.intersection({node.state, *(node.state_flags or "").split("+")})
    )


def word_of(words: str) -> ReasonMeaning | None:
    """What a reason that a journal keeps is (``evidence.words``); None: no word of Slurm's."""
    word = kept.word_of(words)
    return _meaning(word, word) if word else None


def _meaning(said: str, reason: str) -> ReasonMeaning | None:
    nodes = _NODES.search(said)
    plain = said.replace("_", " ") if "_" in said else said  # scontrol prints no blanks
    word = SENTENCES.get(plain.partition(" (")[0], plain.partition(",")[0].strip())
    known = KNOWN.get(plain) or KNOWN.get(word) or _limit(OLD_LIMITS.get(word, word))
    if known is None:
        return None
    named = nodes[1].rstrip(")") if nodes else None
    return ReasonMeaning(
        reason, known.layer, known.words, known.cause, named or None,
        look=_look(plain, word, known), limit=known.limit,
        is_block=known.limit is not None or not BLOCKS.isdisjoint((plain, word)),
    )  # fmt: skip


def _by_facts(
    found: ReasonMeaning, required: str | None, usable: str | None, out: frozenset[str] | None
) -> ReasonMeaning:
    """A node that is not available is down or busy: told apart by what is known of it."""
    nodes = found.nodes or required
    if out is None or not found.reason.startswith("ReqNodeNotAvail"):
        return found
    if not nodes:
        return replace(found, usable=usable)
    if out.intersection(hostlists.expand(nodes)):
        words = "a node that it {} is down, drained or reserved"
        known = _ours(Cause.NOTHING_READY, words.format("requests" if required else "may use"))
    else:
        whose = "that it requests by name" if required else "that Slurm names"
        known = _ours(Cause.BUSY, f"the nodes {whose} are up, but other jobs fill them or go first")
    return ReasonMeaning(
        found.reason, known.layer, known.words, known.cause, nodes, look=SHOW_NODES
    )


def _up_or_out(
    found: ReasonMeaning, required: str | None, usable: str | None, out: frozenset[str] | None
) -> ReasonMeaning:
    """Of nodes that are "down, drained or reserved" some are out of service, or none is."""
    nodes = required or usable
    if out is None or not nodes or out.intersection(hostlists.expand(nodes)):
        return found
    words = "its nodes are up: other jobs fill them, or jobs of a partition that goes first"
    known = _ours(Cause.BUSY, words)
    return ReasonMeaning(
        found.reason, known.layer, known.words, known.cause, required,
        None if required else usable, SHOW_RUNNING,
    )  # fmt: skip


def _look(said: str, word: str, known: _Known) -> str:
    """The command that shows a reason."""
    return limits.look(known.limit) if known.limit else LOOKS.get(said) or LOOKS.get(word, SHOW_JOB)


def _limit(word: str) -> _Known | None:
    """A limit, by its parts."""
    found = _LIMIT.fullmatch(word)
    if not found or (what := _RESOURCES.get(found["what"])) is None:
        return None
    whose = _WHOSE[found["whose"]]
    limit = limits.named(found["whose"], found["over"], found["what"],
                         minutes=found["minutes"], per=found["per"])  # fmt: skip
    if found["minutes"]:
        what = f"{what} × minutes"
    if found["over"] == "Min":
        words = f"requests fewer {what} than {whose} wants at least"
        return _Known(L4, words, limit=limit)
    if found["over"] == "Max" and _is_of_one_job(found):
        words = f"requests more {what} than {whose} allows to one job"
        return _Known(L4, words, Cause.OVER_LIMIT_ALWAYS, limit=limit)
    users = " for one user" if found["per"] == "PerUser" else ""
    words = f"the maximum quota of {whose}{users} is reached: {what}"
    return _Known(LAYER_OF[Cause.OVER_LIMIT], words, Cause.OVER_LIMIT, limit=limit)


def _is_of_one_job(found: re.Match[str]) -> bool:
    return found["per"] in {"PerJob", "PerNode"} or found["what"] == "WallDuration"
