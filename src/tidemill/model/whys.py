"""Why a job was stopped or a node moved, in words."""

from enum import StrEnum


class Why(StrEnum):
    """Why a job was stopped or a node moved; evidence for the ledger and for people."""

    UNSAID = ""
    CRASHED = "crashed"
    NODE_LOST = "node lost"
    DEVICE_LOST = "device lost"
    PREEMPTED = "preempted by priority"
    RECLAIMED = "reclaimed for a floor"
    DRAINED = "drained"
    SPOT_RECLAIM = "spot reclaim"
    MAINTENANCE = "maintenance"
    CONTRACT_END = "contract end"
    SURPLUS = "not needed"
    IDLE = "idle too long"
    REPAIRED = "repaired"
    MOVED = "moved to make room"
    SHRUNK = "shrunk to make room"
    GROWN = "grown into idle room"
    REORDERED = "put off by the order"
    REPACKED = "stopped to be placed elsewhere"
    TIMED_OUT = "time limit reached"
    OUT_OF_MEMORY = "out of memory"
    EVICTED = "evicted, for a drain or for others"
    LOST_RACE = "refused by its node: others had its GPUs first"

    @property
    def words(self) -> str:
        """As people are told it: a floor of the journal is their guaranteed quota."""
        return _WORDS.get(self, str(self))


_WORDS = {
    Why.RECLAIMED: "taken back for a guaranteed quota",
    Why.EVICTED: "evicted, for a drain or others, or its node ran short",
}
"""Where more is meant than journals say."""
