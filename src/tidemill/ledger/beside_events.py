"""What a journal keeps beside its events, as far as the ledger shows or heeds it."""

from collections.abc import Mapping
from typing import NamedTuple

from tidemill.journal import completeness, mfu_sources, node_limits, others_waiting
from tidemill.model.world import World


class BesideEvents(NamedTuple):
    """Facts of a journal."""

    others_waited: others_waiting.Spans = []  # noqa: RUF012  # nobody writes it
    """When pods waited for other schedulers, whose demand these books do not have."""
    mfu_sources: Mapping[str, str] = {}
    """By job: who says how efficient it was, in their own words."""
    not_shown: int = 0
    """GPUs of nodes that take work, which those do not advertise at the end."""
    is_observed: bool = False
    """Whether events are told as they happen: devices failed when the events say so."""

    def others_waited_ms(self, start_ms: int, end_ms: int) -> int:
        """For how long pods waited for other schedulers between two moments."""
        return others_waiting.within(self.others_waited, start_ms, end_ms)

    def unadvertised(self, world: World) -> int:
        """Accelerators of others' nodes that take work, which nobody can have at the end.

        Since when nobody says, so that they are among what was free. (An import tells of them at
        its end.)
        """
        if self.is_observed or not world.is_looked_on:
            return self.not_shown
        return max(self.not_shown, int(world.nodes.failed[: world.node_count].sum()))


def of(facts: Mapping[str, str], now_ms: int, where: str) -> BesideEvents:
    """What a journal keeps."""
    return BesideEvents(
        others_waiting.of(facts, where), mfu_sources.by_job(facts, where),
        node_limits.unadvertised(facts, now_ms, where), completeness.is_observed(facts),
    )  # fmt: skip
