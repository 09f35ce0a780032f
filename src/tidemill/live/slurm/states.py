"""States of jobs and nodes: one base state and flags beside it, from every way Slurm prints them.

Jobs: `CANCELLED by 1000`, `RUNNING+COMPLETING`, `PD`, a list in newer JSON. Nodes: `IDLE+DRAIN`,
`DOWN*`, `mix-`, `drng`. A word that Slurm does not have is refused: it is a sign that columns
moved.
"""

import re
from functools import lru_cache
from typing import NamedTuple

JOB_STATES = {
    "PENDING": "PD",
    "RUNNING": "R",
    "SUSPENDED": "S",
    "COMPLETED": "CD",
    "CANCELLED": "CA",
    "FAILED": "F",
    "TIMEOUT": "TO",
    "NODE_FAIL": "NF",
    "PREEMPTED": "PR",
    "BOOT_FAIL": "BF",
    "DEADLINE": "DL",
    "OUT_OF_MEMORY": "OOM",
}
"""Base states of a job, with the short form that squeue's `%t` prints."""

JOB_FLAGS = {
    "COMPLETING": "CG",
    "CONFIGURING": "CF",
    "REQUEUED": "RQ",
    "REQUEUE_FED": "RF",
    "REQUEUE_HOLD": "RH",
    "RESIZING": "RS",
    "RESV_DEL_HOLD": "RD",
    "REVOKED": "RV",
    "SIGNALING": "SI",
    "SPECIAL_EXIT": "SE",
    "STAGE_OUT": "SO",
    "STOPPED": "ST",
    "LAUNCH_FAILED": "",
    "UPDATE_DB": "",
    "RECONFIG_FAIL": "",
    "POWER_UP_NODE": "",
    "EXPEDITING": "",
}
"""Flags beside a base state; the text forms print only the flag where there is one."""

ENDED = frozenset(JOB_STATES) - {"PENDING", "RUNNING", "SUSPENDED"} | {"REQUEUED", "REVOKED"}
"""States of an attempt that is over, as sacct prints them."""

NODE_STATES = {
    "ALLOC": "ALLOCATED",
    "ALLOCATED": "ALLOCATED",
    "DOWN": "DOWN",
    "ERROR": "ERROR",
    "FUTR": "FUTURE",
    "FUTURE": "FUTURE",
    "IDLE": "IDLE",
    "MIX": "MIXED",
    "MIXED": "MIXED",
    "UNK": "UNKNOWN",
    "UNKNOWN": "UNKNOWN",
}
"""Base states of a node."""

NODE_FLAGS = {word: word for word in (
    "BLOCKED", "CLOUD", "COMPLETING", "DRAIN", "DYNAMIC_FUTURE", "DYNAMIC_NORM", "EXTERNAL", "FAIL",
    "INVALID", "INVALID_REG", "MAINTENANCE", "NOT_RESPONDING", "PERFCTRS", "PLANNED",
    "POWERED_DOWN", "POWERING_DOWN", "POWERING_UP", "POWER_DOWN", "POWER_DRAIN", "POWER_UP",
    "REBOOT_CANCELED", "REBOOT_ISSUED", "REBOOT_REQUESTED", "RESERVED", "RESUME", "UNDRAIN",
)} | {
    "BLOCK": "BLOCKED", "BOOT": "REBOOT_ISSUED", "COMP": "COMPLETING", "INVAL": "INVALID_REG",
    "MAINT": "MAINTENANCE", "NO_RESPOND": "NOT_RESPONDING", "NPC": "PERFCTRS", "PLND": "PLANNED",
    "POW_DN": "POWERED_DOWN", "POW_UP": "POWERING_UP", "REBOOT": "REBOOT_REQUESTED",
    "RES": "RESERVED", "RESV": "RESERVED",
}  # fmt: skip
"""Flags beside a base state, under one name each."""

BROKEN = frozenset({"DOWN", "ERROR", "FAIL", "FAILING", "NOT_RESPONDING", "INVALID_REG", "INVALID"})
"""States and flags of a node that does not work."""

CLOSED = frozenset({"DRAIN", "DRAINED", "DRAINING", "POWER_DRAIN", "POWERING_DOWN"})
"""States and flags of a node that works, takes no new jobs, and is being emptied."""

PAUSED = frozenset({"MAINTENANCE", "REBOOT_ISSUED"})
"""Flags of a node that takes no new jobs for a while."""

SILENT = frozenset({"POWERED_DOWN", "POWERING_DOWN", "POWERING_UP", "REBOOT_ISSUED"})
"""Flags of a node that is not expected to respond: that it does not is no fault."""

OUT = BROKEN | CLOSED | PAUSED | {"FUTURE", "POWERED_DOWN"}
"""States and flags of a node that takes no new jobs, for whatever reason."""

NODE_BOTH = {
    "DRAINED": ("IDLE", "DRAIN"),
    "DRAINING": ("DRAINING", "DRAIN"),
    "DRNG": ("DRAINING", "DRAIN"),
    "FAILG": ("FAILING", "FAIL"),
    "FAILING": ("FAILING", "FAIL"),
}
"""Words of sinfo that mean a base state and a flag. `DRAINING` does not say how busy the node
still is, so it stays its own base state."""

NODE_SUFFIXES = {
    "*": "NOT_RESPONDING",
    "~": "POWERED_DOWN",
    "#": "POWERING_UP",
    "!": "POWER_DOWN",
    "%": "POWERING_DOWN",
    "$": "MAINTENANCE",
    "@": "REBOOT_REQUESTED",
    "^": "REBOOT_ISSUED",
    "-": "PLANNED",
}
"""Characters after a state, from the manual of sinfo."""

_SHORT = {short: name for name, short in [*JOB_STATES.items(), *JOB_FLAGS.items()] if short}
_BY = re.compile(r"(.*?) by \d+")


class StateFound(NamedTuple):
    """Base state, and flags joined by `+`."""

    state: str | None
    flags: str | None = None


@lru_cache(maxsize=4096)
def job(text: str) -> StateFound:
    """The state of a job from one text; ``ValueError`` for a word Slurm does not have."""
    by = _BY.fullmatch(text)
    words = (by[1] if by else text.rstrip("+")).split("+")
    return job_of_words([word for word in words if word])


def job_of_words(words: list[str]) -> StateFound:
    """The state from a list, as newer JSON has it."""
    known = [_job_word(word.strip()) for word in words]
    base = next((word for word in known if word in JOB_STATES), known[0] if known else None)
    return StateFound(base, "+".join(word for word in known if word != base) or None)


def accounted(words: list[str]) -> StateFound:
    """The same of a record of sacct, which is of one attempt: where newer JSON says that the job is
    pending, and requeued beside, the attempt is over, as the text says.
    """
    found = job_of_words(words)
    return StateFound("REQUEUED") if found == ("PENDING", "REQUEUED") else found


def _job_word(word: str) -> str:
    name = _SHORT.get(word, word.upper())
    if name not in JOB_STATES and name not in JOB_FLAGS:
        raise ValueError("not a state of a job that Slurm has")
    return name


def node(text: str) -> StateFound:
    """The state of a node from one text, in the long or the short form."""
    if text in {"", "(null)", "N/A"}:
        return StateFound(None)
    words, suffixes = list[str](), list[str]()
    for word in text.split("+"):  # `DOWN*+DRAIN`: characters may follow each word
        bare = word.rstrip("".join(NODE_SUFFIXES))
        words.append(bare)
        suffixes += [NODE_SUFFIXES[letter] for letter in word[len(bare) :]]
    found = node_of_words(words)
    flags = [*(found.flags.split("+") if found.flags else []), *suffixes]
    return StateFound(found.state, "+".join(dict.fromkeys(flags)) or None)


def node_of_words(words: list[str]) -> StateFound:
    """The state from a list, as newer JSON has it."""
    base, flags = None, list[str]()
    for word in (word.strip().upper() for word in words if word):
        if word in NODE_BOTH:
            base, flag = NODE_BOTH[word]
            flags.append(flag)
        elif word in NODE_STATES:
            base = NODE_STATES[word]
        elif word in NODE_FLAGS:
            flags.append(NODE_FLAGS[word])
        else:
            raise ValueError(f"`{word}` is not a state of a node that Slurm has")
    return StateFound(base or (flags[0] if flags else None), "+".join(dict.fromkeys(flags)) or None)
