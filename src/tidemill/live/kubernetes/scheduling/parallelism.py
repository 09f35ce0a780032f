"""How a gang of a cluster divides its model, by an annotation: what its neighbours follow from.

The sizes of groups of ranks; the rest of the gang is data parallel. Ranks are the GPUs of its pods
in the order of their numbers.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache

from msgspec.structs import replace

from tidemill.live.kubernetes.owners import OwnerObject
from tidemill.live.kubernetes.pods import KubePod
from tidemill.live.kubernetes.scheduling.shapes import Unplaceable
from tidemill.model.measures import count_text
from tidemill.model.rows import Shape
from tidemill.model.topology import Parallelism

STATED = "tidemill/parallelism"
"""An annotation of pods or of their owner: `tensor=8,pipeline=4`."""
NAMES = ("tensor", "context", "expert", "pipeline")
MOST_DIGITS = 6


def parsed(text: str) -> dict[str, int]:
    """What the annotation says; empty: nothing that can be heeded."""
    found = dict[str, int]()
    for part in text.split(","):
        name, _, size = (word.strip() for word in part.partition("="))
        is_size = size.isascii() and size.isdecimal() and len(size) <= MOST_DIGITS and int(size) > 0
        if name not in NAMES or name in found or not is_size:
            return {}
        found[name] = int(size)
    return found


def kept(
    shape: Shape | Unplaceable, pods: Sequence[KubePod], above: Sequence[OwnerObject]
) -> tuple[Shape | Unplaceable, str]:  # fmt: skip
    """A shape whose groups of ranks sit together where they can; and why not, in words."""
    told = sorted(_told(pods, above))
    if isinstance(shape, Unplaceable) or not told or not all(map(parsed, told)):
        return shape, ""  # what cannot be read is told with all other annotations
    if flaw := _flaw(shape, told):
        return shape, f"annotation {STATED} is `{told[0][:40]}`, {flaw}: it is not heeded"
    return _divided(shape, told[0]), ""


def _told(pods: Iterable[KubePod], above: Iterable[OwnerObject]) -> set[str]:
    notes = (*(pod.annotations for pod in pods), *(owner.annotations for owner in above))
    return {one[STATED] for one in notes if one.get(STATED)}


def _flaw(shape: Shape, told: Sequence[str]) -> str:
    """Why a gang cannot be divided so, though the words are clear; "": it can."""
    if len(told) > 1:
        return f"and `{told[1][:40]}` in the same gang"
    if shape.elastic_role is not None:
        return "and the gang may have several sizes, which no sizes of groups divide"
    sizes = [role.count * role.accelerators for role in shape.roles if role.accelerators]
    if len(sizes) != 1:
        return (
            f"and its GPUs are of {count_text(len(sizes), 'role')}: only those of one are divided"
        )
    given = Parallelism(**parsed(told[0]))
    inner = given.tensor * given.context * given.pipeline
    if sizes[0] % inner:
        groups = f"groups of {count_text(inner, 'GPU')}"
        return f"{groups}, which do not divide the {sizes[0]:,} of its gang"
    if sizes[0] // inner * given.context % given.expert:
        return f"and experts over {given.expert:,} ranks do not divide those of data and context"
    return ""


@lru_cache(4096)
def _divided(shape: Shape, told: str) -> Shape:
    """One shape for all jobs that are alike."""
    given = Parallelism(**parsed(told))
    total = sum(role.count * role.accelerators for role in shape.roles)
    data = total // (given.tensor * given.context * given.pipeline)
    return replace(shape, parallelism=replace(given, data=data))
