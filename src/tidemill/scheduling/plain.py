"""The loops of placement in numpy: the same answers as ``kernels``, without a compiler.

For a single question asked of a cold process loading the compiled kernels takes longer (0.6 s) than
a few dozen sweeps over 10,000 nodes in numpy (0.3 ms each, measured). Loops that run all day use
``kernels``; a test holds the two to the same results.
"""

import numpy as np
from numpy.typing import NDArray

from tidemill.model.measures import WHOLE_MILLI
from tidemill.model.states import NodeState
from tidemill.model.tables import I64

HAS_TREES = False  # a question asked once is answered by one sweep
READY = int(NodeState.READY)
PLENTY = 1 << 30
TIGHTNESS = 1 << 22

Flags = NDArray[np.bool_]


def count_hosts(
    state: I64, is_spare: I64, group: I64, first_device: I64, devices: I64, is_failed: I64,
    is_ok: I64, cpu_free: I64, memory_free: I64, node_free: I64, device_free: I64,
    rows: int, accelerators: int, milli: int, cpu: int, memory: int, hosts: I64,
) -> int:  # fmt: skip
    """Write into ``hosts`` how many replicas each node can take; return the sum."""
    del devices  # a node's devices end where the next node's begin
    takes = _takes_work(state, is_spare, group, is_ok, rows) & (node_free >= accelerators * milli)
    most = np.where(takes, PLENTY, 0)
    if cpu > 0:
        most = np.minimum(most, cpu_free // cpu)
    if memory > 0:
        most = np.minimum(most, memory_free // memory)
    if accelerators and rows:
        working = is_failed[: len(device_free)] == 0
        whole = (device_free == WHOLE_MILLI).astype(np.int64)
        room = whole if milli >= WHOLE_MILLI else device_free // milli
        per_node = np.add.reduceat(np.where(working, room, 0), first_device[:rows])
        most = np.minimum(most, per_node // accelerators)
    hosts[:] = np.where(takes, most, 0)
    return int(hosts.sum())


def fill(
    state: I64, is_spare: I64, group: I64, first_device: I64, devices: I64, is_failed: I64,
    is_ok: I64, cpu_free: I64, memory_free: I64, node_free: I64, device_free: I64,
    rows: int, accelerators: int, milli: int, cpu: int, memory: int, count: int, spreads: bool,
    hosts: I64, out_node: I64, out_replicas: I64, out_mask: NDArray[np.uint64],
) -> int:  # fmt: skip
    """Place ``count`` replicas or none; return the number of pieces, or minus what would fit."""
    total = count_hosts(
        state, is_spare, group, first_device, devices, is_failed, is_ok, cpu_free, memory_free,
        node_free, device_free, rows, accelerators, milli, cpu, memory, hosts,
    )  # fmt: skip
    if total < count:
        return -min(total, PLENTY) - 1
    pieces, left = 0, count
    while left > 0:
        if left == 1 or spreads or milli < WHOLE_MILLI:
            n = _best_single(
                hosts, spreads, milli, node_free, first_device[:rows], is_failed, device_free
            )
            batch = 1
        else:
            n = _best_for_many(hosts, left, node_free)
            batch = min(left, int(hosts[n]))
        first = int(first_device[n])
        mine = device_free[first : first + int(devices[n])]
        out_node[pieces], out_replicas[pieces] = n, batch
        out_mask[pieces] = _take_devices(mine, is_failed[first:], batch * accelerators, milli)
        cpu_free[n] -= batch * cpu
        memory_free[n] -= batch * memory
        node_free[n] -= batch * accelerators * milli
        hosts[n] -= batch
        left -= batch
        pieces += 1
    return pieces


def give(
    n: int, replicas: int, mask: np.uint64, accelerators: int, milli: int, cpu: int, memory: int,
    first_device: I64, cpu_free: I64, memory_free: I64, node_free: I64, device_free: I64,
    sign: int,
) -> None:  # fmt: skip
    """Give a piece back to a node (sign 1), or take it again (sign -1)."""
    bits, d = int(mask), int(first_device[n])
    while bits:
        device_free[d] += sign * milli * (bits & 1)
        bits >>= 1
        d += 1
    cpu_free[n] += sign * replicas * cpu
    memory_free[n] += sign * replicas * memory
    node_free[n] += sign * replicas * accelerators * milli


def copy_nodes(
    which: I64, count: int, first_device: I64, devices: I64, state: I64, is_spare: I64,
    cpu_from: I64, memory_from: I64, node_from: I64, device_from: I64, is_open: Flags,
    cpu_free: I64, memory_free: I64, node_free: I64, device_free: I64,
) -> int:  # fmt: skip
    """Copy the first ``count`` nodes of ``which``; all of them count as changed."""
    some = which[:count]
    is_open[some] = (state[some] == READY) & (is_spare[some] == 0)
    cpu_free[some], memory_free[some] = cpu_from[some], memory_from[some]
    node_free[some] = node_from[some]
    for n in some.tolist():
        mine = slice(first_device[n], first_device[n] + devices[n])
        device_free[mine] = device_from[mine]
    return count


def _takes_work(state: I64, is_spare: I64, group: I64, is_ok: I64, rows: int) -> Flags:
    takes: Flags = (state[:rows] == READY) & (is_spare[:rows] == 0) & (is_ok[group[:rows]] != 0)
    return takes


def _best_single(
    hosts: I64, spreads: bool, milli: int, node_free: I64, first: I64, is_failed: I64,
    device_free: I64,
) -> int:  # fmt: skip
    """The tightest node when packing, the emptiest when spreading; the first among equals."""
    if spreads:
        score = -node_free
    elif milli >= WHOLE_MILLI:
        score = node_free
    else:
        fits = (is_failed[: len(device_free)] == 0) & (device_free >= milli)
        spare = np.where(fits, device_free - milli, WHOLE_MILLI)
        tightest = np.minimum.reduceat(spare, first).astype(np.int64)
        score = tightest * TIGHTNESS + node_free
    able = np.flatnonzero(hosts > 0)
    return int(able[np.argmin(score[able])])


def _best_for_many(hosts: I64, left: int, node_free: I64) -> int:
    """The node that hosts most of what is left; the tighter one among equals, then the first."""
    taken = np.minimum(hosts, left)
    able = np.flatnonzero(taken == taken.max())
    return int(able[np.argmin(node_free[able])])


def _take_devices(free: I64, is_failed: I64, wanted: int, milli: int) -> int:
    able = [d for d in range(len(free)) if not is_failed[d] and free[d] >= milli]
    if milli < WHOLE_MILLI and wanted:
        able = [min(able, key=lambda d: (free[d], d))]
    mask = 0
    for d in able[:wanted]:
        free[d] -= milli
        mask |= 1 << d
    return mask
