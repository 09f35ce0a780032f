"""Heads: who claims first of a shape, in orders that read what each job is like."""

from tidemill.core.accounting.columns import FIRST, MARK
from tidemill.core.heads import LAST, read_from, weigh
from tidemill.core.kernel import kernel
from tidemill.model.columns import JOB


@kernel
def read_line(w, b, s):
    """Know the first of a line by rank, and by patience."""
    ranks, patience_ms = b.marks[MARK.RANKS], b.marks[MARK.PATIENCE_MS]
    j = read_from(w.jobs, w.shapes, b.learnt, b.heads, 0, s)
    while j >= 0:
        weigh(w.jobs, w.shapes, b.steps, b.learnt, b.heads, 0, ranks, patience_ms, s, j)
        j = w.jobs[j, JOB.NEXT]


@kernel
def place_first(w, b, s):
    """The place of the first of a shape as of the last event; who it is, is in ``FIRST.UPCOMING``.

    Whoever has lost its patience goes before all who have not, in the order in which that was.
    """
    heads = b.heads
    read_line(w, b, s)
    if heads[s, FIRST.PATIENCE_MS] <= b.marks[MARK.EVENT_MS]:
        heads[s, FIRST.UPCOMING] = heads[s, FIRST.IMPATIENT]
        return heads[s, FIRST.PATIENCE_MS] - LAST
    heads[s, FIRST.UPCOMING] = heads[s, FIRST.BEST]
    return heads[s, FIRST.BEST_RANK]
