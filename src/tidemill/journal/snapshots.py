"""Snapshots as they are kept: a World as bytes, with what proves that it belongs to a journal.

A snapshot is a shortcut and never the truth. One that was damaged, that has the layout of another
version, or that was taken of other events is not used, and the journal is folded instead.
"""

import hashlib
from typing import NamedTuple

import msgspec

from tidemill.model import snapshot
from tidemill.model.errors import JournalError
from tidemill.model.world import World

KEPT = 2  # the one before serves when the newest was damaged
LARGEST_BYTES = 900_000_000  # SQLite keeps up to 10^9 in one value


class Stored(NamedTuple):
    """A snapshot after ``seq`` events; ``crc`` is the checksum of the last of them."""

    seq: int
    crc: int
    layout: int
    digest: str
    body: bytes


def pack(world: World, crc: int) -> Stored:
    """The World as it will be kept."""
    body = snapshot.dump(world)
    if len(body) > LARGEST_BYTES:
        raise JournalError(
            f"a snapshot of {len(body)} bytes cannot be kept; {LARGEST_BYTES} is the most",
            hint="go on without it: rebuilding folds more events and takes longer",
        )
    return Stored(world.seq, crc, snapshot.LAYOUT, hashlib.sha256(body).hexdigest(), body)


def unpack(stored: Stored) -> World | None:
    """The World in it, or None where it cannot be used."""
    if fault(stored) or stored.layout != snapshot.LAYOUT:
        return None
    try:
        world = snapshot.load(stored.body)
    except (JournalError, msgspec.MsgspecError, ValueError, TypeError, LookupError):
        return None  # the same layout number with other contents: a version between two releases
    return world if world.seq == stored.seq else None


def fault(stored: Stored) -> str:
    """What is wrong with a stored snapshot, as far as it can tell itself."""
    try:
        is_whole = hashlib.sha256(stored.body).hexdigest() == stored.digest
    except TypeError:  # damage may turn any value into any other
        is_whole = False
    return "" if is_whole else "it does not match its checksum"


def refuse_future(world: World, count: int) -> None:
    """Refuse a snapshot of a World that knows more than the journal does."""
    if world.seq > count:
        raise JournalError(
            f"a snapshot after {world.seq} events cannot be kept; the journal has {count}",
            hint="append the events before the World that was folded from them",
        )
