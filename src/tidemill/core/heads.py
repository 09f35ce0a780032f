"""Heads: who is first of a shape's line, in orders that read what each job is like.

The place of a waiting job does not change, but for its patience: the first of a line by rank, and
who loses patience first, are kept until the line is another one, or history says otherwise. What
was read of lines is in columns ``FIRST`` of a matrix, the first of which is ``c``.
"""

from tidemill.core.accounting.columns import FIRST
from tidemill.core.estimates import SAID
from tidemill.core.kernel import kernel
from tidemill.core.order import guarded_from
from tidemill.core.ranks import rank_of
from tidemill.model.columns import JOB, SHAPE

LAST = 1 << 62  # after every rank, and every moment


@kernel
def is_line(shapes, learnt, heads, c, s):
    """Whether the line of a shape is the one that was read last, and history says the same."""
    return (
        heads[s, c + FIRST.NEWS] == learnt[0, SAID.NEWS]
        and heads[s, c + FIRST.HEAD] == shapes[s, SHAPE.HEAD]
        and heads[s, c + FIRST.TAIL] == shapes[s, SHAPE.TAIL]
        and heads[s, c + FIRST.LENGTH] == shapes[s, SHAPE.WAITING]
        and heads[s, c + FIRST.RETURNS] == shapes[s, SHAPE.RETURNS]
    )


@kernel
def note_line(shapes, learnt, heads, c, s):
    """Note which line it is that is read now."""
    heads[s, c + FIRST.NEWS] = learnt[0, SAID.NEWS]
    heads[s, c + FIRST.HEAD] = shapes[s, SHAPE.HEAD]
    heads[s, c + FIRST.TAIL] = shapes[s, SHAPE.TAIL]
    heads[s, c + FIRST.LENGTH] = shapes[s, SHAPE.WAITING]
    heads[s, c + FIRST.RETURNS] = shapes[s, SHAPE.RETURNS]


@kernel
def read_from(jobs, shapes, learnt, heads, c, s):
    """From whom on the jobs of a line are to be weighed; -1: all were.

    A line that is the one that was read last, and one more at its end, is known but for that one.
    """
    if is_line(shapes, learnt, heads, c, s):
        return -1
    tail = shapes[s, SHAPE.TAIL]
    is_one_longer = (
        heads[s, c + FIRST.NEWS] == learnt[0, SAID.NEWS]
        and heads[s, c + FIRST.LENGTH] + 1 == shapes[s, SHAPE.WAITING]
        and heads[s, c + FIRST.HEAD] == shapes[s, SHAPE.HEAD]
        and heads[s, c + FIRST.RETURNS] == shapes[s, SHAPE.RETURNS]
        and heads[s, c + FIRST.TAIL] == jobs[tail, JOB.PREVIOUS]
    )
    note_line(shapes, learnt, heads, c, s)
    if is_one_longer:
        return tail
    heads[s, c + FIRST.BEST_RANK] = LAST
    heads[s, c + FIRST.PATIENCE_MS] = LAST
    return shapes[s, SHAPE.HEAD]


@kernel
def weigh(jobs, shapes, steps, learnt, heads, c, ranks, patience_ms, s, j):
    """Note a job of a line if it is the first of it so far, by rank or by patience."""
    own = rank_of(jobs, shapes, learnt, steps, ranks, j, 0)
    lost = guarded_from(jobs, j, 0, 0, patience_ms, 0)
    if own < heads[s, c + FIRST.BEST_RANK]:
        heads[s, c + FIRST.BEST_RANK] = own
        heads[s, c + FIRST.BEST] = j
    if lost < heads[s, c + FIRST.PATIENCE_MS]:
        heads[s, c + FIRST.PATIENCE_MS] = lost
        heads[s, c + FIRST.IMPATIENT] = j
