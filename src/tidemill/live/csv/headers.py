"""Which column of somebody's table says what: guessed from common headers, or told.

Headers are compared without case, blanks and signs: ``Start Time``, ``start_time`` and
``startTime`` are one. A guess is always shown, and ``--map`` overrules it.
"""

import re
from collections.abc import Iterable, Mapping, Sequence

from tidemill.model.errors import SpecError

JOBS: dict[str, tuple[str, ...]] = {
    "job": ("jobid", "job", "id", "taskid", "jobname", "name", "uuid"),
    "team": ("team", "account", "project", "group", "namespace", "vc", "department", "queue",
             "partition", "org"),
    "user": ("user", "username", "owner", "userid", "uid", "submitter"),
    "submit": ("submittime", "submit", "submitted", "submittedat", "submissiontime", "submitat",
               "createtime", "created", "createdat", "creationtime", "creationtimestamp",
               "queuedat", "queuetime", "arrival", "arrivaltime", "timesubmit"),
    "start": ("starttime", "start", "started", "startedat", "startat", "begin", "begintime",
              "timestart", "launchtime"),
    "end": ("endtime", "end", "ended", "endedat", "endat", "finish", "finished", "finishtime",
            "finishedat", "completed", "completedat", "completiontime", "timeend"),
    "duration": ("duration", "durations", "durationsec", "durationseconds", "runtime", "runtimes",
                 "runtimesec", "elapsed", "elapsedsec", "elapsedraw", "walltime"),
    "gpus": ("gpus", "gpu", "numgpus", "numgpu", "gpunum", "gpucount", "ngpus", "ngpu", "nogpus",
             "gpusallocated", "allocgpus", "gpusrequested", "reqgpus", "numberofgpus",
             "accelerators"),
    "gpu_type": ("gputype", "gpumodel", "gpuspec", "gpuname", "accelerator", "acceleratortype",
                 "devicetype"),
    "nodes": ("nodes", "node", "nodelist", "hosts", "host", "hostname", "hostnames", "nodename",
              "nodenames", "machine", "machines", "instance", "server"),
    "node_count": ("nodecount", "numnodes", "nodenum", "nnodes", "allocnodes", "reqnodes"),
    "cpus": ("cpus", "cpu", "numcpus", "ncpus", "cpucount", "cpunum", "cores", "alloccpus",
             "reqcpus"),
    "outcome": ("state", "status", "jobstate", "jobstatus", "outcome", "result", "exitstatus"),
    "limit": ("timelimit", "limit", "timelimitsec", "walltimelimit", "estimate", "maxtime"),
    "priority": ("priority", "prio"),
}  # fmt: skip
"""What a table of jobs may say, and what people call it; the first that is there is taken."""

NODES: dict[str, tuple[str, ...]] = {
    "node": ("node", "name", "nodename", "host", "hostname", "machine", "server", "instance"),
    "gpus": JOBS["gpus"],
    "gpu_type": (*JOBS["gpu_type"], "type", "model"),
    "cpus": JOBS["cpus"],
    "memory_gib": ("memorygib", "memorygb", "memgb", "memgib", "ramgb", "ramgib", "memory", "mem"),
    "instance_type": ("instancetype", "machinetype", "servertype", "vmsize", "flavor"),
    "region": ("region", "location"),
    "usd_per_hour": ("usdperhour", "usdpergpuhour", "priceperhour", "price", "hourlyrate", "usdh",
                     "costperhour", "costpergpuhour", "hourlycost", "cost", "rate"),
    "usd_per_node_hour": ("usdpernodehour", "usdperinstancehour", "costpernodehour", "nodehour",
                          "instancehour", "priceperinstancehour", "pricepernodehour"),
}  # fmt: skip
"""The same of a table of nodes; a price is of one GPU unless its name says otherwise."""


def plain(header: str) -> str:
    """A header as it is compared."""
    return re.sub(r"[^a-z0-9]", "", header.lower())


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
            name = next((name for name in names if name in left), None)
            if name is not None:
                found[field] = left.pop(name)
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
