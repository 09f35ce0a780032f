"""What the doctor says where sources contradict each other: lines in doubt, and what to do."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import NamedTuple

from tidemill.cli import screen
from tidemill.journal.contradictions import Contradiction, ContradictionSort
from tidemill.ledger.buckets import ABOUT, Bucket

NAMED = 3
"""So many are named; `doctor --json` has all."""


class Doubt(NamedTuple):
    """What follows from one sort of contradiction."""

    title: str
    lines: tuple[str, ...]
    """Of the ledger, that are doubtful of that time."""
    do: str
    booked: str = "doubtful of that time: {}; the scheduler's word is booked"


def _lines(*buckets: int) -> tuple[str, ...]:
    return tuple(f"`{ABOUT[bucket].title}`" for bucket in buckets)


_HELD = "all that the job held"
DOUBTS: dict[ContradictionSort, Doubt] = {
    ContradictionSort.DOWN_BUSY: Doubt(
        "down by the scheduler, and busy by its GPUs", _lines(Bucket.UNHEALTHY),
        "look at the node: a job that the scheduler lost goes on there (end its processes), or"
        " somebody tests it (then all is well), or only its daemon is down (start it again)",
    ),
    ContradictionSort.FREE_BUSY: Doubt(
        "held by nobody by the scheduler, and busy by its GPUs",
        (*_lines(Bucket.CORDONED, Bucket.DRAINING), "free"),
        "look who uses them (`nvidia-smi` on the node): processes that outlived their job, or"
        " people who go past the scheduler (let it confine GPUs to jobs)",
    ),
    ContradictionSort.GPU_COUNT: Doubt(
        "other counts of GPUs",
        ("paid, and all lines of these nodes", *_lines(Bucket.IDLE)),
        "count them on the node (`nvidia-smi -L`): more than the scheduler lists are paid for and"
        " on no line (correct gres.conf, or the device plugin); fewer: one fell off its bus, or its"
        " exporter does not see it",
    ),
    ContradictionSort.LISTED_TWICE: Doubt(
        "nodes of one name in several clusters", ("paid, and all lines of these nodes",),
        "compare the GPUs (`nvidia-smi -L` prints their UUIDs): if it is one machine, it is counted"
        " twice, and so is what it costs; remove it from one of the two schedulers, or watch one of"
        " them alone. If there are two machines, all is well",
    ),
    ContradictionSort.LOOP_ENDED: Doubt(
        "running by the scheduler, and ended by its loop", _lines(Bucket.IDLE),
        "look at the job: what hangs after its loop holds GPUs for nothing (end it)",
    ),
    ContradictionSort.LOOP_OUTSIDE: Doubt(
        "loops that ran while their job held nothing",
        (_HELD, *_lines(Bucket.STARTING, Bucket.REWORK, Bucket.CHECKPOINT)),
        "compare the clocks of its machine and of the scheduler (then --track-ahead, or `ahead` of"
        " [track]), or give the job a name of its own",
    ),
    ContradictionSort.ABOVE_PEAK: Doubt(
        "more FLOP/s than the GPUs can do", _lines(Bucket.USEFUL, Bucket.BELOW_PEAK),
        "tell the FLOPs of one rank, not of all (`step(flops=…)`); look whether the GPU type is"
        " right; where the arithmetic has another peak than dense BF16 (FP8, sparse), let the loop"
        " say its MFU (`run.efficiency(mfu=…)`)",
        "not booked: {}; the work of that attempt has an unknown efficiency",
    ),
    ContradictionSort.OVER_WHOLE: Doubt(
        "waits and an MFU that are more than the time",
        _lines(Bucket.USEFUL, Bucket.HOST, Bucket.LINKS, Bucket.IDLE),
        "let the loop wait for the GPU within its step (`torch.cuda.synchronize()`): else it counts"
        " waits while the GPU works; tell the FLOPs of one rank, not of all; look whether an"
        " exporter names the GPUs of this job",
        "doubtful of that time: {}; waits are booked first, and what is left is useful",
    ),
    ContradictionSort.FEWER_GPUS: Doubt(
        "loops that use fewer GPUs than their jobs hold",
        _lines(Bucket.USEFUL, Bucket.BELOW_PEAK),
        "request fewer GPUs, or use them; where others of its processes do, call `track.job` in"
        " each; where it uses more than it says, correct `track.job(gpus=…)`",
        "inferred for the other GPUs: {}; FLOPs and MFU count over all that are held",
    ),
    ContradictionSort.MORE_GPUS: Doubt(
        "loops that use more GPUs than their jobs hold",
        _lines(Bucket.USEFUL, Bucket.BELOW_PEAK),
        "look whether the scheduler told all GPUs of the job, and whether each rank says those that"
        " it uses alone (`track.job(gpus=…)`)",
        "not booked: {}; the work of that attempt has an unknown efficiency, and nobody knows how"
        " many tokens a GPU-hour made",
    ),
}  # fmt: skip


class Contradicted(NamedTuple):
    """One sort of contradictions of one source, in words."""

    what: str
    found: str
    so: str


def words(told: Iterable[Contradiction]) -> Iterator[Contradicted]:
    """By sort and source; the longest first."""
    groups = dict[tuple[ContradictionSort, str], list[Contradiction]]()
    for one in told:
        groups.setdefault((one.sort, one.source), []).append(one)
    for (sort, _), some in sorted(groups.items()):
        doubt = DOUBTS[sort]
        some.sort(key=lambda one: (one.first_ms - one.last_ms, one.name))
        named = "; ".join(f"`{one.name}`: {one.says}, {_time(one)}" for one in some[:NAMED])
        more = f"; and {len(some) - NAMED:,} more" if len(some) > NAMED else ""
        is_node = sort in _OF_NODES
        count = screen.count(len(some), "node" if is_node else "job")
        yield Contradicted(
            f"contradiction: {doubt.title}", f"{count}: {named}{more}",
            f"{doubt.booked.format(', '.join(doubt.lines))}. {doubt.do}",
        )  # fmt: skip


_OF_NODES = {
    ContradictionSort.DOWN_BUSY, ContradictionSort.FREE_BUSY, ContradictionSort.GPU_COUNT,
    ContradictionSort.LISTED_TWICE,
}  # fmt: skip


def _time(one: Contradiction) -> str:
    first, last = (
        datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%MZ")
        for ms in (one.first_ms, one.last_ms)
    )
    return f"{first} to {last}"
