"""Which column of somebody's table says what: guessed from common headers, or told.

Headers are compared without case, blanks and signs: ``Start Time``, ``start_time`` and
``startTime`` are one. A guess is always shown, and ``--map`` overrules it.
"""

import re
from collections.abc import Iterable, Mapping, Sequence

from tidemill.model.errors import SpecError

CURRENCY = ("currency", "currencycode", "billingcurrency", "pricingcurrency")
"""What people call the column that says in which currency prices are."""
INSTANCE_TYPES = ("instancetype", "machinetype", "servertype", "vmsize", "flavor")
JOBS: dict[str, tuple[str, ...]] = {
    "job": ("jobid", "job", "id", "idjob", "taskid", "jobname", "trainingjobname", "runid",
            "experimentid", "workload", "name", "uuid"),
    "cluster": ("cluster", "clustername", "clusterid"),
    "team": ("team", "account", "project", "group", "namespace", "vc", "department", "queue",
             "partition", "org"),
    "user": ("user", "username", "owner", "userid", "iduser", "uid", "submitter",
             "createdby", "tagsmlflowuser"),
    "submit": ("submittime", "submit", "submitted", "submittedat", "submissiontime", "submitat",
               "createtime", "created", "createdat", "creationtime", "creationtimestamp",
               "queuedat", "arrival", "arrivaltime", "timesubmit"),
    "start": ("starttime", "start", "started", "startedat", "startat", "begin", "began",
              "begintime", "timestart", "launchtime", "launched", "launchedat",
              "trainingstarttime", "scheduledtime", "scheduledat", "allocatedat"),
    "wait": ("wait", "waittime", "waited", "queue", "queuetime", "queuewait", "queuewaittime",
             "queueduration", "queueddelay", "queuedelay", "pendingtime"),
    "end": ("endtime", "end", "ended", "endedat", "endat", "finish", "finished", "finishtime",
            "finishedat", "completed", "completedat", "completiontime", "timeend", "deletiontime",
            "deletedat", "stoptime", "stopped", "stoppedat", "trainingendtime", "terminated",
            "terminatedat"),
    "duration": ("duration", "runtime", "elapsed", "elapsedraw", "walltime", "elapsedtime",
                 "jobduration", "walltimeused"),
    "gpus": ("gpus", "gpu", "numgpus", "numgpu", "gpunum", "gpucount", "ngpus", "ngpu", "nogpus",
             "gpusallocated", "allocgpus", "gpusrequested", "reqgpus", "numberofgpus",
             "accelerators", "paramsgpus", "gpucomputeallocation", "gpusused", "gresused"),
    "gpu_type": ("gputype", "gpumodel", "gpuspec", "gpuname", "accelerator", "acceleratortype",
                 "devicetype"),
    "nodes": ("nodes", "node", "nodelist", "hosts", "host", "hostname", "hostnames", "nodename",
              "nodenames", "machine", "machines", "instance", "server"),
    "node_count": ("nodecount", "numnodes", "nodenum", "nnodes", "allocnodes", "nodesalloc",
                   "reqnodes", "instancecount"),
    "instance_type": INSTANCE_TYPES,
    "cpus": ("cpus", "cpu", "numcpus", "ncpus", "cpucount", "cpunum", "cores", "alloccpus",
             "reqcpus"),
    "outcome": ("state", "status", "jobstate", "jobstatus", "trainingjobstatus", "outcome",
                "result", "exitstatus"),
    "limit": ("timelimit", "limit", "walltimelimit", "estimate", "maxtime"),
    "priority": ("priority", "prio"),
}  # fmt: skip
"""What a table of jobs may say, and what people call it; the first that is there is taken."""

LENGTHS = ("wait", "duration", "limit")
"""Fields that are a length of time: their headers may end in its unit."""
UNITS: dict[str, tuple[str, float]] = {
    "": ("seconds", 1_000),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), ("seconds", 1_000)),
    **dict.fromkeys(("ms", "msec", "millis", "milliseconds"), ("milliseconds", 1)),
    **dict.fromkeys(("us", "usec", "micros", "microseconds"), ("microseconds", 0.001)),
    **dict.fromkeys(("ns", "nsec", "nanos", "nanoseconds"), ("nanoseconds", 0.000_001)),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), ("minutes", 60_000)),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), ("hours", 3_600_000)),
    **dict.fromkeys(("d", "day", "days"), ("days", 86_400_000)),
}
"""What stands at the end of a header: the unit in words, and in milliseconds."""

NODES: dict[str, tuple[str, ...]] = {
    "cluster": JOBS["cluster"],
    "node": ("node", "name", "nodename", "host", "hostname", "machine", "server", "instance"),
    "gpus": JOBS["gpus"],
    "gpu_type": (*JOBS["gpu_type"], "type", "model"),
    "cpus": JOBS["cpus"],
    "memory_gib": ("memorygib", "memorygb", "memgb", "memgib", "ramgb", "ramgib", "memory", "mem"),
    "instance_type": INSTANCE_TYPES,
    "region": ("region", "location"),
    "usd_per_hour": ("usdperhour", "usdpergpuhour", "priceperhour", "price", "hourlyrate", "usdh",
                     "costperhour", "costpergpuhour", "hourlycost", "cost", "rate"),
    "usd_per_node_hour": ("usdpernodehour", "usdperinstancehour", "costpernodehour", "nodehour",
                          "instancehour", "priceperinstancehour", "pricepernodehour"),
    "currency": CURRENCY,
}  # fmt: skip
"""The same of a table of nodes; a price is of one GPU unless its name says otherwise."""


def plain(header: str) -> str:
    """A header as it is compared."""
    return re.sub(r"[^a-z0-9]", "", header.lower())


def unit_of(header: str) -> tuple[str, float]:
    """The unit of a length of time by its header (``duration_ms``, ``Elapsed (min)``)."""
    last = re.split(r"[^A-Za-z0-9]+|(?<=[a-z])(?=[A-Z])", header.strip(" )]"))[-1]
    return UNITS.get(last.lower(), UNITS[""])


def _fits(name: str, header: str, field: str) -> bool:
    """Whether a header is called by a name: where it is a length also by it and a unit, and where
    it is in dollars also with their name (``price (USD)``).
    """
    if field.startswith("usd_") and header.replace("usd", "") == name:
        return True
    if field not in LENGTHS or not header.startswith(name):
        return header == name
    return header[len(name) :].removeprefix("in") in UNITS


def match(
    headers: Sequence[str], words: Mapping[str, Iterable[str]], told: Mapping[str, str]
) -> dict[str, str]:
    """Which header says what: as told, else by the first word that fits, each header once."""
    for field, header in told.items():
        if field not in words:
            raise SpecError(
                f"--map names `{field}`, which is nothing that a table can say",
                hint=f"what it can say: {', '.join(words)}",
            )
        if header not in headers:
            raise SpecError(
                f"--map takes `{field}` from the column `{header}`, which is not there",
                hint=f"the columns are: {', '.join(headers)}",
            )
    found = dict(told)
    left = {plain(header): header for header in reversed(headers) if header not in found.values()}
    for field, names in words.items():
        if field not in found:
            fits = (one for name in names for one in left if _fits(name, one, field))
            if (one := next(fits, None)) is not None:
                found[field] = left.pop(one)
    return found


def told_map(pairs: Iterable[str]) -> dict[str, str]:
    """``gpus=num_gpus,start=start_time``, once or several times."""
    found: dict[str, str] = {}
    for pair in (part for text in pairs for part in text.split(",") if part.strip()):
        field, sign, header = pair.partition("=")
        if not sign or not field.strip() or not header.strip():
            raise SpecError(
                f"--map is `{pair}`, which is not FIELD=COLUMN",
                hint="such as --map gpus=num_gpus,start=start_time",
            )
        found[field.strip()] = header.strip()
    return found
