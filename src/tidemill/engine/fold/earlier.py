"""What no event tells, before the first one or beside them: put into the state afterwards."""

from collections.abc import Mapping

from tidemill.model.states import ACTIVE, LAUNCHED, JobState, NodeState
from tidemill.model.world import World


def submitted(world: World, before_ms: Mapping[str, int]) -> None:
    """Jobs were submitted so long before the beginning, by their names; below zero: after it.

    That is earlier than their events tell: they were there at a first look.
    """
    for name, ms in before_ms.items():
        j = world.job_number.get(name)
        if j is None or (told_ms := world.jobs.submit_ms.item(j)) <= -ms:
            continue
        world.ink.jobs.submit_ms[j] = -ms
        if world.jobs.state[j] == JobState.WAITING and world.jobs.since_ms[j] == told_ms:
            world.ink.jobs.since_ms[j] = -ms


def placed(world: World, before_ms: Mapping[str, int]) -> None:
    """Jobs were on their nodes so long before the beginning, as far as they are there since."""
    for name, ms in before_ms.items():
        j = world.job_number.get(name)
        if j is None or world.jobs.attempt[j] != 1 or world.jobs.state[j] not in ACTIVE:
            continue
        told_ms = world.jobs.placed_ms.item(j)
        if told_ms <= -ms:
            continue
        world.ink.jobs.placed_ms[j] = -ms
        if world.jobs.since_ms[j] == told_ms:
            world.ink.jobs.since_ms[j] = -ms


def said_of_nodes(world: World, words: Mapping[str, str]) -> None:
    """Why nodes that are out are so, by their names, in the words of their own cluster."""
    for name, said in words.items():
        n = world.node_number.get(name)
        if n is not None and world.nodes.state[n] in LAUNCHED - {NodeState.READY}:
            world.node_words[n] = said
