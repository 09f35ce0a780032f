"""Pods that have, or wait for, GPUs that are in the books of another job: they share its claim."""

from typing import NamedTuple


class ClaimSharer(NamedTuple):
    """One such pod (DRA)."""

    pod: str
    """Namespace and name, as a job is called."""
    claim: str
    job: str
    """In whose books the GPUs of the claim are, or which requests them."""
    is_waiting: bool
    """Whether it waits for a node."""
    is_part: bool = False
    """Whether each of them has a claim of its own, for a part of one GPU (`shareID`)."""
    says: str = ""
    """What its own scheduler says of it; "": nothing."""
