"""The stages between paid and useful: what each is called and how it looks.

A stage has a colour (``s-free`` in the style sheet; after Paul Tol's *muted* scheme, which people
with any of the common colour blindnesses can tell apart, and only useful is green), but never a
colour alone: its name or its place in the stack says the same. What nobody knows is hatched.
"""

from tidemill.ledger.buckets import ABOUT, Stage

MILESTONES: dict[Stage, str] = {Stage.FREE: "Ready", Stage.NOT_WORKING: "allocated"}
"""What is left when everything before this stage is taken away has a name of its own."""


def style(group: Stage) -> str:
    """The class that colours a stage."""
    return "s-" + group.name.lower().replace("_", "-")


def members(group: Stage) -> tuple[int, ...]:
    """The buckets of a stage, top to bottom."""
    return tuple(bucket for bucket in ABOUT if ABOUT[bucket].group is group)
