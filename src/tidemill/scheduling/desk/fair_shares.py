"""Fair shares in a cycle: counted when it begins, and again when somebody was placed."""

from tidemill.core.fair_shares import SHARING, count_past, rank, share_of
from tidemill.model.columns import AT, QUEUE, SHAPE
from tidemill.scheduling.desk.columns import REG
from tidemill.scheduling.desk.kernel import kernel
from tidemill.scheduling.desk.order import line_up_again


@kernel
def count_all_past(w, d):
    """What the queues in which somebody waits, and those above them, used lately."""
    for i in range(d.reg[REG.LOOKS]):
        q = w.shapes[d.looks[i], SHAPE.QUEUE]
        while q >= 0 and d.sharing[q, SHARING.COUNTED_IN] != d.reg[REG.CYCLE]:
            count_past(w.at, w.queues, w.quotas, d.past, q, d.reg[REG.NOW])
            d.sharing[q, SHARING.COUNTED_IN] = d.reg[REG.CYCLE]
            q = w.queues[q, QUEUE.PARENT]


@kernel
def count_share(w, d, q):
    """Write the share of a queue as it is in the room."""
    weight, fairness = d.sharing[q, SHARING.WEIGHT], d.reg[REG.FAIRNESS]
    share = share_of(w.quotas, d.used, d.past, d.worth, q, weight, fairness)
    d.sharing[q, SHARING.SHARE] = share


@kernel
def rank_all(w, d):
    """At the beginning of a cycle: who has how much, and who has the least."""
    if d.reg[REG.FAIRNESS] != 0:
        if w.at[AT.HALF_LIFE_MS] != 0:
            count_all_past(w, d)
        for q in range(len(d.sharing)):
            count_share(w, d, q)
        rank(d.sharing, d.fair)


@kernel
def rank_again(w, d, q):
    """A job of a queue was placed: it has more, and everybody in line may have another key."""
    if d.reg[REG.FAIRNESS] == 0:
        return
    while q >= 0:
        count_share(w, d, q)
        q = w.queues[q, QUEUE.PARENT]
    rank(d.sharing, d.fair)
    line_up_again(w, d)
