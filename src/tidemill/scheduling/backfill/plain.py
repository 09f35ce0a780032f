"""Expected ends and what reservations keep free, without a compiler: the same as ``kernels``."""

import numpy as np

from tidemill.model.measures import FOREVER_MS, ONE_PPM
from tidemill.model.tables import I64, U64

DEVICES = 64  # of one node: a mask is one number
LONGEST_MS = 1 << 42  # of which a share in ppm can be taken: more than a century


def expect(
    now_ms: int, rows: int, job: I64, total_ms: I64, placed_ms: I64, startup_ms: I64,
    restart_ms: I64, attempt: I64, saved_ms: I64, reached_ms: I64, speed_ppm: I64, is_leaving: I64,
    done_ms: I64, end_ms: I64, outrun: I64,
) -> int:  # fmt: skip
    """What every running job has done, when it is expected to end, and who outran that."""
    end_ms[:rows] = FOREVER_MS
    some = np.flatnonzero(job[:rows] >= 0)
    j = job[some]
    begin_ms = placed_ms[j] + startup_ms[j] + np.where(attempt[j] > 1, restart_ms[j], 0)
    speed = speed_ppm[j].astype(np.int64)
    done_ms[some] = saved_ms[j] + np.maximum(0, now_ms - begin_ms) * speed // ONE_PPM
    left_ms = total_ms[some] - done_ms[some]
    slowed_ms = np.minimum(left_ms, LONGEST_MS) * ONE_PPM // np.maximum(1, speed)
    left_ms = np.where(speed == ONE_PPM, left_ms, slowed_ms)
    end_ms[some] = np.where(is_leaving[j] != 0, now_ms, np.maximum(begin_ms, now_ms) + left_ms)
    late = some[total_ms[some] <= np.maximum(done_ms[some], reached_ms[j])]
    outrun[: len(late)] = late
    return len(late)


def sort_again(order: I64, rows: int, end_ms: I64, job: I64) -> None:
    """Sort rows by (end, job) in place."""
    order[:rows] = order[:rows][np.lexsort((job[order[:rows]], end_ms[order[:rows]]))]


def keep(
    count: int, node: I64, mask: U64, milli: I64, cpu: I64, memory: I64, first_device: I64,
    cpu_free: I64, memory_free: I64, node_free: I64, device_free: I64, kept_part: I64,
    kept_cpu: I64, kept_memory: I64,
) -> None:  # fmt: skip
    """Take what pieces need and is free now, and write down what that was."""
    kept_part[:] = 0
    for i in range(count):
        n = int(node[i])
        devices = int(first_device[n]) + _bits(mask[i])
        part = np.minimum(milli[i], np.maximum(0, device_free[devices]))
        kept_part[i * DEVICES + _bits(mask[i])] = part
        kept_cpu[i] = min(int(cpu[i]), max(0, int(cpu_free[n])))
        kept_memory[i] = min(int(memory[i]), max(0, int(memory_free[n])))
        device_free[devices] -= part.astype(np.int64)
        node_free[n] -= part.sum()
        cpu_free[n] -= kept_cpu[i]
        memory_free[n] -= kept_memory[i]


def let_go(
    count: int, node: I64, mask: U64, first_device: I64, cpu_free: I64, memory_free: I64,
    node_free: I64, device_free: I64, kept_part: I64, kept_cpu: I64, kept_memory: I64,
) -> None:  # fmt: skip
    """Give back what was kept."""
    for i in range(count):
        n, bits = int(node[i]), _bits(mask[i])
        device_free[int(first_device[n]) + bits] += kept_part[i * DEVICES + bits]
        node_free[n] += kept_part[i * DEVICES + bits].sum()
        cpu_free[n] += kept_cpu[i]
        memory_free[n] += kept_memory[i]


def _bits(mask: np.uint64) -> I64:
    """Which bits of a mask are set."""
    found: I64 = np.flatnonzero([int(mask) >> d & 1 for d in range(int(mask).bit_length())])
    return found
