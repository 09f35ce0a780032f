"""Collectives: how long what the ranks of a job say to each other takes, hop by hop.

The alpha-beta model: a message costs its latency and its bytes over the bandwidth of the slowest
link it passes. Rings for all-reduce, all-gather and reduce-scatter (Thakur et al. 2005), pairwise
for all-to-all. Nothing overlaps, so a slowdown is an upper bound. Seconds are floats here, physics;
what leaves this module for a decision or a ledger is a whole number of parts per million.

Volumes of a training step are those of Megatron-LM (Narayanan et al. 2021, Korthikanti et al. 2022)
in 16-bit numbers: four all-reduces of activations a layer for tensor parallelism, keys and values
round the context group, four all-to-alls a layer for experts, activations between pipeline stages,
gradients once a step for data parallelism.
"""

from collections.abc import Mapping
from typing import NamedTuple

from tidemill.model.measures import ONE_PPM
from tidemill.model.topology import APART, Parallelism, Topology

BYTES = 2  # of a number: bfloat16
COMPUTE_EFFICIENCY = 0.5  # of the peak that matrix products alone reach in well-tuned training
SLOWEST_PPM = 100 * ONE_PPM


class Link(NamedTuple):
    """What a hop gives to one accelerator."""

    bytes_per_s: float
    latency_s: float


def link(topology: Topology, hop: int) -> Link | None:
    """The link of a hop; beyond every tier it is that of the outermost. None when unknown."""
    tier = topology.tiers[max(hop, APART + 1) - 1]
    if not tier.mb_per_s:
        return None
    usable = tier.mb_per_s * 1e6 * 1000 / tier.oversubscription_milli
    return Link(usable, tier.latency_ns / 1e9)


def all_reduce_s(ranks: int, size: float, over: Link) -> float:
    """A ring: every rank sends its part round twice."""
    return 2 * all_gather_s(ranks, size, over)


def all_gather_s(ranks: int, size: float, over: Link) -> float:
    """A ring: each of the parts, ``size`` together, passes every rank but one."""
    return (ranks - 1) * (size / ranks / over.bytes_per_s + over.latency_s)


reduce_scatter_s = all_gather_s
"""The same ring, the other way round."""


def all_to_all_s(ranks: int, size: float, over: Link) -> float:
    """Pairwise: each rank keeps its own part of ``size`` and sends the others one by one."""
    return (ranks - 1) * (size / ranks / over.bytes_per_s + over.latency_s)


def point_to_point_s(size: float, over: Link) -> float:
    """One message."""
    return size / over.bytes_per_s + over.latency_s


def slow_ppm(
    topology: Topology,
    stated: Parallelism,
    gflops: int | None,
    here: Mapping[str, int],
    best: Mapping[str, int],
) -> int | None:
    """How much longer a step takes where its groups cross ``here`` than where they cross ``best``.

    Hops by dimension (see ``parallelism.groups``). None where the model or a link is unknown.
    """
    compute_s = _compute_s(stated, gflops)
    now_s, best_s = (_talk_s(topology, stated, hops) for hops in (here, best))
    if compute_s is None or now_s is None or best_s is None:
        return None
    return _ppm((compute_s + now_s) / (compute_s + best_s) - 1)


def share_slow_ppm(topology: Topology, links_ppm: int, here: int, best: int) -> int:
    """The same for a job of which only the share of time on links is known: that part grows as the
    bandwidth shrinks.
    """
    now, then = link(topology, here), link(topology, best)
    if now is None or then is None:
        return 0
    return _ppm(links_ppm / ONE_PPM * (then.bytes_per_s / now.bytes_per_s - 1))


def _compute_s(stated: Parallelism, gflops: int | None) -> float | None:
    """Six floating-point operations a parameter and token, at what kernels reach of the peak."""
    tokens = stated.batch * stated.sequence
    if not (gflops and stated.parameters_m and tokens):
        return None
    ranks = stated.tensor * stated.context * stated.pipeline * stated.data
    return 6e6 * stated.parameters_m * tokens / (ranks * gflops * 1e9 * COMPUTE_EFFICIENCY)


def _talk_s(topology: Topology, stated: Parallelism, hops: Mapping[str, int]) -> float | None:
    links = {name: link(topology, hop) for name, hop in hops.items()}
    total = 0.0
    for name, over in links.items():
        if over is None:
            return None
        total += _OF_DIMENSION[name](stated, over)
    return total


def _activations(stated: Parallelism) -> float:
    """Bytes that one layer hands to the next on one rank, over all micro-batches of a step."""
    sequences = stated.batch / stated.data
    return BYTES * sequences * stated.sequence / stated.context * stated.hidden


def _layers(stated: Parallelism) -> float:
    return stated.layers / stated.pipeline


def _tensor_s(stated: Parallelism, over: Link) -> float:
    return 4 * _layers(stated) * all_reduce_s(stated.tensor, _activations(stated), over)


def _context_s(stated: Parallelism, over: Link) -> float:
    keys_and_values = 2 * _activations(stated) * stated.context / stated.tensor
    return 3 * _layers(stated) * all_gather_s(stated.context, keys_and_values, over)


def _expert_s(stated: Parallelism, over: Link) -> float:
    tokens = _activations(stated) / stated.tensor
    return 4 * _layers(stated) * all_to_all_s(stated.expert, tokens, over)


def _pipeline_s(stated: Parallelism, over: Link) -> float:
    return 2 * point_to_point_s(_activations(stated), over)


def _data_s(stated: Parallelism, over: Link) -> float:
    gradients = BYTES * 1e6 * stated.parameters_m / (stated.tensor * stated.pipeline)
    return all_reduce_s(stated.data, gradients, over)


_OF_DIMENSION = {
    "tensor": _tensor_s,
    "context": _context_s,
    "expert": _expert_s,
    "pipeline": _pipeline_s,
    "data": _data_s,
}


def _ppm(part: float) -> int:
    return min(SLOWEST_PPM, max(0, round(part * ONE_PPM)))
