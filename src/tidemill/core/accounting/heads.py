"""Heads: who claims first of a shape, in orders that read what each job is like.

The place of a waiting job does not change, but for its patience: the first of a line by rank, and
who loses patience first, are kept until the line is another one, or history says otherwise.
"""

from tidemill.core.accounting.columns import FIRST, MARK
from tidemill.core.estimates import SAID
from tidemill.core.kernel import kernel
from tidemill.core.order import guarded_from
from tidemill.core.ranks import rank_of
from tidemill.model.columns import JOB, SHAPE

LAST = 1 << 62  # after every rank, and every moment


@kernel
def is_known(shapes, learnt, heads, s):
    """Whether the line of a shape is the one that was read last, and history says the same."""
    return (
        heads[s, FIRST.NEWS] == learnt[0, SAID.NEWS]
        and heads[s, FIRST.HEAD] == shapes[s, SHAPE.HEAD]
        and heads[s, FIRST.TAIL] == shapes[s, SHAPE.TAIL]
        and heads[s, FIRST.LENGTH] == shapes[s, SHAPE.WAITING]
        and heads[s, FIRST.RETURNS] == shapes[s, SHAPE.RETURNS]
    )


@kernel
def note_line(shapes, learnt, heads, s):
    """Note which line it is that is read now."""
    heads[s, FIRST.NEWS] = learnt[0, SAID.NEWS]
    heads[s, FIRST.HEAD] = shapes[s, SHAPE.HEAD]
    heads[s, FIRST.TAIL] = shapes[s, SHAPE.TAIL]
    heads[s, FIRST.LENGTH] = shapes[s, SHAPE.WAITING]
    heads[s, FIRST.RETURNS] = shapes[s, SHAPE.RETURNS]


@kernel
def weigh(w, b, s, j):
    """Note a job of a line if it is the first of it so far, by rank or by patience."""
    marks, heads = b.marks, b.heads
    own = rank_of(w.jobs, w.shapes, b.learnt, b.steps, marks[MARK.RANKS], j, 0)
    lost = guarded_from(w.jobs, j, 0, 0, marks[MARK.PATIENCE_MS], 0)
    if own < heads[s, FIRST.BEST_RANK]:
        heads[s, FIRST.BEST_RANK] = own
        heads[s, FIRST.BEST] = j
    if lost < heads[s, FIRST.PATIENCE_MS]:
        heads[s, FIRST.PATIENCE_MS] = lost
        heads[s, FIRST.IMPATIENT] = j


@kernel
def read_line(w, b, s):
    """Know the first of a line by rank, and by patience."""
    shapes, heads = w.shapes, b.heads
    if is_known(shapes, b.learnt, heads, s):
        return
    tail = shapes[s, SHAPE.TAIL]
    is_one_longer = (
        heads[s, FIRST.NEWS] == b.learnt[0, SAID.NEWS]
        and heads[s, FIRST.LENGTH] + 1 == shapes[s, SHAPE.WAITING]
        and heads[s, FIRST.HEAD] == shapes[s, SHAPE.HEAD]
        and heads[s, FIRST.RETURNS] == shapes[s, SHAPE.RETURNS]
        and heads[s, FIRST.TAIL] == w.jobs[tail, JOB.PREVIOUS]
    )
    j = tail
    if not is_one_longer:
        heads[s, FIRST.BEST_RANK] = LAST
        heads[s, FIRST.PATIENCE_MS] = LAST
        j = shapes[s, SHAPE.HEAD]
    while j >= 0:
        weigh(w, b, s, j)
        j = w.jobs[j, JOB.NEXT]
    note_line(shapes, b.learnt, heads, s)


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
