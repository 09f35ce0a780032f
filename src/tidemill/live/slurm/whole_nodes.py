"""Jobs that wait for more than GPUs of one type: nodes of their own, or several types together.

Slurm gives a job with `--exclusive` all that its nodes have, however few GPUs it named, and starts
it only where nobody else is: it asks for all GPUs of a node, where all nodes that it may use have
as many. What the books cannot say of such a request is told ``BESIDES``.
"""

from collections.abc import Iterator, Sequence

import polars as pl

from tidemill.live.history.attempts import kind_of
from tidemill.live.history.rows import AttemptEnd, SeenNode
from tidemill.live.slurm import amounts
from tidemill.live.slurm.allowed_nodes import BESIDES, NodeRequest
from tidemill.model.rows import PARTITION

_ASKED = ("gpus", "node_count", "gpu_type", "asked_nodes", "is_exclusive", "type_gpus")


def as_asked(
    rows: pl.DataFrame, nodes: Sequence[SeenNode], asked: Sequence[NodeRequest]
) -> pl.DataFrame:
    """Attempts of which those that wait for whole nodes ask for their GPUs.

    ``asked``: what jobs say of their nodes, by number (``asked_nodes``).
    """
    waits = (pl.col("outcome") == AttemptEnd.WAITING) & (pl.col("gpus") > 0)
    waits &= pl.col("is_exclusive") | pl.col("type_gpus").is_not_null()
    told = rows.with_row_index("row").filter(waits)
    whole, besides = dict[int, int](), dict[int, str]()
    for row, gpus, count, kind, number, is_alone, types in told.select("row", *_ASKED).iter_rows():
        if types and (text := _together(types, gpus)):
            besides[row] = text
        if is_alone:
            ask, each = asked[number] if number is not None else NodeRequest(), -(-gpus // count)
            sizes = {size for size in _sizes(nodes, ask, kind) if size >= each}
            if len(sizes) == 1:
                whole[row] = count * sizes.pop()
            else:
                besides[row] = "nodes of its own (--exclusive)"
    row = pl.int_range(pl.len())
    is_open = pl.col("is_exclusive").fill_null(value=False) & row.is_in([*besides])
    return rows.with_columns(
        gpus=row.replace_strict(whole, default=None, return_dtype=pl.Int64).fill_null(
            pl.col("gpus")
        ),
        is_per_node=pl.col("is_per_node") | row.is_in([*whole]),
        # it will hold more GPUs than it named, and the memory of a node once
        memory_mib=pl.when(~is_open).then("memory_mib"),
        **{BESIDES: row.replace_strict(besides, default=None, return_dtype=pl.String)},
    ).drop("is_exclusive")


def _together(types: str, gpus: int) -> str:
    """GPUs of several types that it wants at once; "" where the numbers are not those of its GPUs.

    Of a request that was changed Slurm keeps the types that it had before.
    """
    found = [(name.rpartition(":")[2], count) for name, count in amounts.tres(types) or ()]
    if sum(count for _, count in found) != gpus:
        return ""
    return " and ".join(f"{count} {name}" for name, count in found) + " together"


def _sizes(nodes: Sequence[SeenNode], ask: NodeRequest, gpu_type: str | None) -> Iterator[int]:
    """How many GPUs nodes have that a job may use."""
    partitions = {(PARTITION + name, "") for name in (ask.partition or "").split(",") if name}
    told = any(key.startswith(PARTITION) for node in nodes for key, _ in node.labels)
    kinds = {kind_of(one) for one in (gpu_type or "").split(",") if one}
    for node in nodes:
        is_mine = not told or not partitions or partitions & {*node.labels}
        if is_mine and (not kinds or kind_of(node.gpu_type) in kinds):
            yield node.gpus
