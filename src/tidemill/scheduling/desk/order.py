"""The order of a cycle as numbers: the key of each shape's next job, and the line by key.

Keys are compared from left to right, and end in the job's number: no two are equal.
"""

from tidemill.core.heaps import rise
from tidemill.model.columns import QUEUE, QUOTA, SHAPE
from tidemill.scheduling.desk.columns import ASK, LINE, REG
from tidemill.scheduling.desk.kernel import kernel

WORDS = int(LINE.JOB) + 1  # of a key
TYPES_AT_MOST = 62  # that one number tells apart
PROMISED = -1  # the standing of whoever room was made for: before everybody


@kernel
def standing(queues, quotas, used, types, first, count, q, depth):
    """The rank of a queue by its floors, from the top level down: smaller goes first.

    At each level, whoever uses less than its floor of a type that it may use goes before whoever
    does not; the highest level weighs most, since there the paths of two queues part first.
    ``types`` from ``first`` on: those that it may use.
    """
    rank, level = 0, 0
    while q >= 0:
        borrows = 1
        for i in range(first, first + count):
            if used[q, types[i]] < quotas[q, types[i], QUOTA.FLOOR]:
                borrows = 0
                break
        rank += borrows << level
        level += 1
        q = queues[q, QUEUE.PARENT]
    return ((rank + 1) << (depth - level)) - 1


@kernel
def note_standings(w, d):
    """Note which queues use less than their guaranteed quotas, in the room; whether that is news.

    Nothing else of the room is in a key, where there are no fair shares. Of many types not all are
    told apart: then it is always taken for news.
    """
    if d.reg[REG.KEYS_CHANGE] == 0:
        return False
    is_news = len(d.free) > TYPES_AT_MOST
    for q in range(len(d.under)):
        below = 0
        for k in range(min(len(d.free), TYPES_AT_MOST)):
            below |= int(d.used[q, k] < w.quotas[q, k, QUOTA.FLOOR]) << k
        is_news = is_news or below != d.under[q]
        d.under[q] = below
    return is_news


@kernel
def note_placed(w, d):
    """A job was placed: note whether anybody in line may have another key by that."""
    d.reg[REG.PLACED] += 1
    if note_standings(w, d) or d.reg[REG.FAIRNESS] != 0:
        d.reg[REG.KEYED] = d.reg[REG.PLACED]


@kernel
def write_key(w, d, line, i, s):
    """Write the entry of a shape's next job into a row, as of now."""
    asks = d.asks
    line[i, LINE.JOB] = asks[s, ASK.UPCOMING]
    line[i, LINE.SHAPE] = s
    line[i, LINE.PLACED] = d.reg[REG.PLACED]
    if w.shapes[s, SHAPE.PROMISED] != 0:
        line[i, LINE.STANDING] = PROMISED
        line[i, LINE.FAIR] = 0
        line[i, LINE.FIRST] = 0
        line[i, LINE.SECOND] = 0
        return
    q = w.shapes[s, SHAPE.QUEUE]
    first, count = asks[s, ASK.FIRST_TYPE], asks[s, ASK.TYPES]
    line[i, LINE.STANDING] = standing(
        w.queues, w.quotas, d.used, d.types, first, count, q, d.reg[REG.DEPTH]
    )
    line[i, LINE.FAIR] = d.fair[q]
    line[i, LINE.FIRST] = asks[s, ASK.FIRST]
    line[i, LINE.SECOND] = asks[s, ASK.SECOND]


@kernel
def insert(line, i, level, share, first, second, j, s):
    """Write an entry at the end of a line of so many; it takes its place."""
    line[i, LINE.STANDING] = level
    line[i, LINE.FAIR] = share
    line[i, LINE.FIRST] = first
    line[i, LINE.SECOND] = second
    line[i, LINE.JOB] = j
    line[i, LINE.SHAPE] = s
    rise(line, i, WORDS)


@kernel
def enter(w, d, s):
    """A shape's next job lines up."""
    at = d.reg[REG.HEAP]
    write_key(w, d, d.line, at, s)
    rise(d.line, at, WORDS)
    d.reg[REG.HEAP] = at + 1


@kernel
def line_up_again(w, d):
    """Everybody in line has another key: fair shares have changed."""
    count, d.reg[REG.HEAP] = d.reg[REG.HEAP], 0
    for i in range(count):
        enter(w, d, d.line[i, LINE.SHAPE])
