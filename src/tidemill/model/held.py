"""Jobs of ours that are not placed whatever is free, and why: they are in no queue."""

from msgspec import Struct


class UnplacedJob(Struct, frozen=True, order=True):
    """One job that waits for something else than GPUs: its rest, a rule, a right."""

    name: str
    team: str
    gpus: int
    """Requested in all, as far as that is known."""
    reason: str
    """One word, as its pods say it."""
    words: str
    since_ms: int
    """From the zero of the journal."""
    is_counted: bool = True
    """Whether all that it requests is known."""
    of: tuple[str, ...] = ()
    """What its pods belong to, directly or not, by namespace and name: people ask by these, too."""
