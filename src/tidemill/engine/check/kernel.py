"""``@kernel``: a function of the plan checker, which only reads the cluster state and the plan."""

from tidemill.core.kernel import beside
from tidemill.engine.check.columns import VECTORS, Facts, Rows, Sums, View, Yard

_TABLES = {"w": View, "c": Sums, "f": Facts, "p": Rows, "y": Yard}

kernel = beside(__file__, _TABLES, VECTORS)
"""Compile this, unless the process runs interpreted."""
