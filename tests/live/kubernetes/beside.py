"""Whether each line that `why` prints beside a number shows it, on a real cluster."""

import json
import re
import shlex
from typing import Any

from tests.cli.shell import tidemill
from tests.rigs.kubernetes.cluster import Cluster

Fact = dict[str, Any]
OF_JOB = ("needs", "labels asked", "partial gang", "missing")
OF_QUEUE = ("jobs ahead", "placed before it", "passed by", "preempted", "lost_races")
OF_TEAM = ("team use", "team limit", "limit", "guaranteed quota")
OF_NODES = ("free", "ready", "claimed", "largest free block", "gang", "replicas that fit")


def shown(rig: Cluster, line: str) -> str:
    """What a line that begins with kubectl prints, on one line."""
    first, *rest = shlex.split(line)
    assert first == "kubectl", line
    return " ".join(rig.kubectl(*rest).split())


def facts(job: str, journal: str) -> list[Fact]:
    """The evidence of a job."""
    answer = tidemill("why", job, "-j", journal, "--json")
    assert answer.code == 0, answer.err
    found: list[Fact] = json.loads(answer.out)["answer"]["evidence"]
    return found


def lines(fact: Fact) -> list[str]:
    """What is printed beside a number, for kubectl."""
    return [one["line"] for one in fact["shown_by"] if one["on"] == "kubernetes"]


def check(rig: Cluster, job: str, journal: str) -> int:
    """Every line of a job prints something, and with its number the thing that the number is of;
    how many lines that were.
    """
    count = 0
    for fact in facts(job, journal):
        told = {line: shown(rig, line) for line in lines(fact)}
        assert all(told.values()), (job, fact["words"], told)
        every, count = " ".join(told.values()), count + len(told)
        for wanted in patterns(job, fact) if told else ():
            assert re.search(wanted, every), (job, fact["words"], wanted, told)
    return count


def patterns(job: str, fact: Fact) -> list[str]:
    """What the lines beside a fact have to show."""
    name, words, at = job.rpartition("/")[2], fact["words"], fact["name"]
    own = rf"\b{re.escape(name)}\b"
    if at in OF_JOB:
        each = re.search(r"needs (?:[\d,]+ replicas? of )?(\d+)(?: |$)", words)
        return [own] + ([rf'\.com/gpu["\s:=]+{each[1]}\b'] if each else [])
    if at in OF_QUEUE:
        ahead = re.findall(r"`[^`]*?/([^`]+)`", words)
        return [own, *(rf"\b{re.escape(one)}\b" for one in ahead)]
    if at in OF_TEAM:
        teams = re.findall(r"team `(?:cohort )?([^`]+)`", words)  # the use with the job has none
        return [rf"\b{re.escape(team)}\b" for team in teams]
    return ["Name: "] if at in OF_NODES else []
