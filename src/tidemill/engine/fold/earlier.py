"""What no event tells, before the first one or beside them: put into the state afterwards."""

from collections.abc import Mapping

from tidemill.model.states import LAUNCHED, JobState, NodeState
from tidemill.model.world import World


def submitted(world: World, before_ms: Mapping[str, int]) -> None:
    """Jobs that are there from the beginning were submitted so long before it, by their names."""
    for name, ms in before_ms.items():
        j = world.job_number.get(name)
        if j is None or world.jobs.submit_ms[j] != 0:
            continue
        world.ink.jobs.submit_ms[j] = -ms
        if world.jobs.state[j] == JobState.WAITING and world.jobs.since_ms[j] == 0:
            world.ink.jobs.since_ms[j] = -ms


def said_of_nodes(world: World, words: Mapping[str, str]) -> None:
    """Why nodes that are out are so, by their names, in the words of their own cluster."""
    for name, said in words.items():
        n = world.node_number.get(name)
        if n is not None and world.nodes.state[n] in LAUNCHED - {NodeState.READY}:
            world.node_words[n] = said
