"""What a job waits for where another scheduler decides: what that one says, or what the books find.

``why`` and ``pending`` both say it, so it is one rule. A reason that is a block (a limit, a
licence, a hold, a volume that is not there) is the cause whatever is free: what the books find
beside it does not start the job when it ends. What they prove never to fit stays that; and of a
plain *not enough is free* they know more.
"""

import re
from typing import NamedTuple

from tidemill.model.reasons import (
    BY_FACTS,
    LAYER_OF,
    NEVER,
    Cause,
    Layer,
    PlaceRule,
    is_block,
)
from tidemill.model.world import SeenReason, World

ASKING = "Slurm: squeue -o '%i %r' -j JOB; Kubernetes: kubectl describe pod POD"
"""How people ask another scheduler, where a journal does not know its reason."""
_WORD = re.compile(r"[\w.-]+")
_NO_SUPPLY = frozenset({Cause.NOTHING_LAUNCHED, Cause.NOTHING_READY})
_LIMITS = (Cause.OVER_LIMIT, Cause.OVER_LIMIT_ALWAYS)
_LACKS = _NO_SUPPLY | {Cause.NOT_ENOUGH_READY}


NONE_SHOWN = "must be beside pods (podAffinity) of which none is shown"
_MEANT = re.compile(rf"; (?:that is|{BY_FACTS}): ([^;]*?)(?:;| \(kubectl |$)")
"""What a reason of Kubernetes says after what it quotes, up to what it says beside that."""
_RULE = re.compile(rf"\(({'|'.join(PlaceRule)})\)$")
SAY_LITTLE = frozenset({
    "Unschedulable", "Pending", "SchedulerError", "FailedCreate", "Suspended", "SchedulingGated",
    "Kueue", "Undetermined",
})  # fmt: skip
"""Words of Kubernetes that stand before reasons of many kinds."""
_PER_NODE = (PlaceRule.PORT, PlaceRule.PODS)
_LONGEST = 60
"""Of what is said instead of such a word."""


class WaitsFor(NamedTuple):
    """What a job waits for: a cause, or the word that another scheduler has for it."""

    cause: Cause
    layer: Layer
    says: str = ""
    """That word, where it says another thing than the books."""
    is_block: bool = False
    """Whether no GPU that comes free starts it, by that scheduler and not by the books."""


def waits_for(world: World, j: int, books: Cause) -> WaitsFor:
    """What a job waits for; ``books``: by them alone, as far as that can be known."""
    plain = WaitsFor(books, LAYER_OF[books])
    found = _reason(world, j)
    if found is None:
        return plain
    said, layer = Cause(found.cause), Layer(found.layer)
    if books in NEVER:  # who is held is whose the reason is: a user's, or an administrator's
        return plain._replace(layer=layer) if said is books else plain
    told = WaitsFor(said, layer, _says(found, said), _is_block(found, books))
    is_theirs = said not in (Cause.NONE, Cause.BUSY, books)
    return told if told.is_block or is_theirs or books is Cause.NONE else plain


def _says(found: SeenReason, said: Cause) -> str:
    """The word that tells a reason from others: the sort of rule, its own, or what it means."""
    word = _WORD.match(found.words)
    if word is None:
        return "its own reason"
    if word[0] not in SAY_LITTLE:
        return word[0]
    meant = meaning(found.words)
    if rule := _RULE.search(meant):
        return rule[1]
    is_short = 0 < len(meant) <= _LONGEST and not re.search(r"\d", meant)
    return meant if said is Cause.NONE and is_short else word[0]


def meaning(words: str) -> str:
    """What a reason of Kubernetes means, as it is said after the quoted line; "": nobody says."""
    found = _MEANT.search(words)
    return found[1] if found else ""


def words(world: World, j: int) -> str:
    """All that another scheduler said of a job; "": nothing."""
    found = _reason(world, j)
    return found.words if found is not None else ""


def place_rule(world: World, j: int) -> PlaceRule | None:
    """What of the place of a job keeps it out, by its own scheduler's reason; None: another thing,
    or nobody says.
    """
    found = _RULE.search(meaning(words(world, j)))
    return PlaceRule(found[1]) if found else None


def blocks(world: World, j: int) -> bool:
    """Whether its own scheduler keeps a job out, whatever the books say."""
    found = _reason(world, j)
    return found is not None and is_block(Cause(found.cause), Layer(found.layer), found.words)


def names_limit(world: World, j: int) -> bool:
    """Whether its own scheduler says of a job that a limit keeps it out."""
    found = _reason(world, j)
    return found is not None and Cause(found.cause) in _LIMITS


def way_out(world: World, j: int, waits: WaitsFor) -> str:
    """What to do where another scheduler's reason counts, and not what the books find."""
    if waits.cause is Cause.PROMISED:
        return "wait until those that its own scheduler stops for it have ended"
    do = "do what its own scheduler's reason asks for"
    if place_rule(world, j) in _PER_NODE:  # one that comes free elsewhere may
        return do
    never = ": no GPU that comes free starts it"
    return do + never if waits.is_block or blocks(world, j) else do


def _reason(world: World, j: int) -> SeenReason | None:
    """What another scheduler said, also where it was not seen to place anything yet."""
    return None if world.scheduler else world.reason_of(j)


def _is_block(found: SeenReason, books: Cause) -> bool:
    """Whether it is one beside what the books find, who have the amounts where both agree."""
    cause = Cause(found.cause)
    if cause is books and cause is not Cause.NONE:
        return False
    if cause in _NO_SUPPLY and books not in _LACKS:  # its nodes are out, and others are busy
        return True
    return is_block(cause, Layer(found.layer), found.words)
