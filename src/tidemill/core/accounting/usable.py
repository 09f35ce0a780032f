"""Usable: what the mix of arrivals could have used of what was free, integrated over time.

Only nodes that changed are counted again. ``tests/ledger`` says the same in plain Python.
"""

from tidemill.core.accounting.columns import DEMAND, MARK, REPLICA, SIZE, USE
from tidemill.core.kernel import kernel
from tidemill.core.places import READY, WHOLE
from tidemill.model.columns import AT, DEVICE, JOB, NODE, SHAPE
from tidemill.model.states import Level
from tidemill.model.tables import Contracts

KIND = Contracts._fields.index("kind")


@kernel
def whole_free(nodes, devices, n):
    """How many accelerators of a node are free, whole."""
    found, first = 0, nodes[n, NODE.FIRST_DEVICE]
    for d in range(first, first + nodes[n, NODE.DEVICES]):
        if devices[d, DEVICE.IS_FAILED] == 0 and devices[d, DEVICE.FREE_MILLI] == WHOLE:
            found += 1
    return found


@kernel
def parts_free(nodes, devices, n, milli):
    """How many parts of this size fit on the accelerators of a node."""
    found, first = 0, nodes[n, NODE.FIRST_DEVICE]
    for d in range(first, first + nodes[n, NODE.DEVICES]):
        if devices[d, DEVICE.IS_FAILED] == 0:
            found += devices[d, DEVICE.FREE_MILLI] // milli
    return found


@kernel
def rehost(nodes, devices, asks, ask_groups, hosts, totals, n, first_ask, asks_known):
    """Count anew how many replicas of each ask from this one on a node hosts."""
    is_open = nodes[n, NODE.STATE] == READY and nodes[n, NODE.IS_SPARE] == 0
    takes_work = is_open and nodes[n, NODE.IS_UNSEEN] == 0
    whole = whole_free(nodes, devices, n) if takes_work else 0
    for i in range(first_ask, asks_known):
        most = 0
        if takes_work and ask_groups[i, nodes[n, NODE.GROUP]] != 0:
            if asks[i, REPLICA.MILLI] < WHOLE:
                most = parts_free(nodes, devices, n, asks[i, REPLICA.MILLI])
            else:
                most = whole // asks[i, REPLICA.ACCELERATORS]
            if asks[i, REPLICA.CPU] > 0:
                most = min(most, nodes[n, NODE.CPU_FREE_MILLI] // asks[i, REPLICA.CPU])
            if asks[i, REPLICA.MEMORY] > 0:
                most = min(most, nodes[n, NODE.MEMORY_FREE_MIB] // asks[i, REPLICA.MEMORY])
        totals[i, nodes[n, NODE.CONTRACT]] += most - hosts[n, i]
        hosts[n, i] = most


@kernel
def rehost_all(w, b, first_ask):
    """Ask every node about the asks from this one on."""
    for n in range(b.marks[MARK.NODES]):
        rehost(
            w.nodes, w.devices, b.asks, b.ask_groups, b.hosts, b.totals, n, first_ask,
            b.marks[MARK.ASKS],
        )  # fmt: skip
    b.marks[MARK.IS_CHANGED] = 1


@kernel
def catch_up(w, b):
    """Look again at the nodes that changed since the last look."""
    marks, at = b.marks, w.at
    position, kept = marks[MARK.LOG_READ], len(w.log)
    if position == at[AT.LOGGED]:
        return
    marks[MARK.LOG_READ] = at[AT.LOGGED]
    marks[MARK.IS_CHANGED] = 1
    if position < at[AT.LOG_FIRST] or at[AT.LOGGED] - position > kept:
        rehost_all(w, b, 0)
        return
    for i in range(position, at[AT.LOGGED]):
        rehost(
            w.nodes, w.devices, b.asks, b.ask_groups, b.hosts, b.totals, w.log[i % kept], 0,
            marks[MARK.ASKS],
        )  # fmt: skip


@kernel
def count_arrivals(marks, jobs, shapes, demands, sizes, jobs_known):
    """Count the jobs that were submitted since the last look, by size."""
    if marks[MARK.COUNTED] == jobs_known:
        return
    for j in range(marks[MARK.COUNTED], jobs_known):
        s = jobs[j, JOB.SHAPE]
        first = shapes[s, SHAPE.FIRST_ROLE]
        for r in range(first, first + shapes[s, SHAPE.ROLES]):
            if demands[r, DEMAND.SIZE] >= 0:
                sizes[demands[r, DEMAND.SIZE], SIZE.ARRIVALS] += 1
    marks[MARK.COUNTED] = jobs_known
    marks[MARK.IS_CHANGED] = 1


@kernel
def add_size(contracts, totals, asks, sizes, could, z, k, contracts_known):
    """Add what arrivals of a size could use of a kind, if a whole gang of it fits there."""
    i, hosted = sizes[z, SIZE.ASK], 0
    for c in range(contracts_known):
        if contracts[c, KIND] == k:
            hosted += totals[i, c]
    if hosted < sizes[z, SIZE.REPLICAS]:
        return
    each = asks[i, REPLICA.ACCELERATORS] * asks[i, REPLICA.MILLI]
    for c in range(contracts_known):
        if contracts[c, KIND] == k:
            could[c, 0] += sizes[z, SIZE.ARRIVALS] * totals[i, c] * each


@kernel
def find_usable(contracts, b):
    """What arrivals could use of each contract, on the mean; how many may use each kind."""
    marks, sizes, could, arrived = b.marks, b.sizes, b.could, b.arrived
    for c in range(marks[MARK.CONTRACTS]):
        could[c, 0] = 0
    for k in range(len(arrived)):
        arrived[k, 0] = 0
        for z in range(marks[MARK.SIZES]):
            if sizes[z, SIZE.ARRIVALS] > 0 and b.ask_kinds[sizes[z, SIZE.ASK], k] != 0:
                arrived[k, 0] += sizes[z, SIZE.ARRIVALS]
                add_size(contracts, b.totals, b.asks, sizes, could, z, k, marks[MARK.CONTRACTS])
    for c in range(marks[MARK.CONTRACTS]):
        if arrived[contracts[c, KIND], 0] > 0:
            could[c, 0] //= arrived[contracts[c, KIND], 0]


@kernel
def weigh(w, b, jobs_known, dt):
    """Add so long of what is free, usable and unasked, by contract.

    What is free of a kind that nobody who arrived may use is unasked.
    """
    marks, free_use = b.marks, b.free_use
    count_arrivals(marks, w.jobs, w.shapes, b.demands, b.sizes, jobs_known)
    catch_up(w, b)
    if marks[MARK.IS_CHANGED] != 0:
        find_usable(w.contracts, b)
        marks[MARK.IS_CHANGED] = 0
    for c in range(marks[MARK.CONTRACTS]):
        free = w.levels[c, Level.READY] * dt
        free_use[USE.FREE, c] += free
        free_use[USE.USABLE, c] += b.could[c, 0] * dt
        if b.arrived[w.contracts[c, KIND], 0] == 0:
            free_use[USE.UNASKED, c] += free
