"""A ledger bucket: of what jobs hold and do not use, the part that interactive jobs hold.

It appears in every ledger as ``idle_notebooks``; what is left of ``idle`` is other jobs'.
"""

import numpy as np

from tidemill.extend import I64, JobClass, LedgerRows, World, add_bucket


def held_by_notebooks(world: World, rows: LedgerRows) -> I64:
    """How much of each row of ``idle`` goes into this bucket, in accelerator-milli × ms."""
    is_open = np.array([shape.kind is JobClass.INTERACTIVE for shape in world.shape_rows])
    return np.where(is_open[world.jobs.shape[rows.job]], rows.milli_ms, 0)


add_bucket("idle_notebooks", "allocated, idle: notebooks", part_of="idle", part=held_by_notebooks)
