"""``@kernel``: a function over the columns of a history that compiles."""

from tidemill.core.kernel import between

_VECTORS = ("reg",)
_MATRICES = (
    "attempts", "event_pieces", "events", "held", "measured", "moments", "seats", "submitted",
    "where",
)  # fmt: skip


def dimensions(name: str) -> int:
    """How many dimensions an argument of this name has."""
    return 1 if name in _VECTORS else 2 * (name in _MATRICES)


kernel = between(__file__, {}, dimensions)
"""Compile this, unless the process runs interpreted."""
