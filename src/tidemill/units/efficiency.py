"""Efficiency from physics: how the productive time of a job divides, when only its work is known.

Training by the step-time model, a service by the roofline of its decoding, anything else by the
samples that one accelerator takes. Waiting for the host comes first, and stretches the rest. What
is neither host nor links nor model FLOPs is below peak FLOP/s: bound by memory bandwidth as far as
the roofline says so at the work's arithmetic intensity, below the attainable roof in the rest (the
bubble of a pipeline, recomputation, kernels short of it). Always *modelled*.
"""

from typing import NamedTuple

from tidemill.model.measures import ONE_PPM
from tidemill.model.rows import Efficiency
from tidemill.model.states import Confidence
from tidemill.model.topology import Parallelism
from tidemill.units import collectives, flops, models, precision, roofline, serving
from tidemill.units.achieved_rates import WIDE, Silicon
from tidemill.units.machine import Machine
from tidemill.units.models import Model
from tidemill.units.roofline import Ceilings, WorkPiece
from tidemill.units.step import Step


class Decode(NamedTuple):
    """One token for every sequence of a service, on all ranks of a replica."""

    seconds: float
    links_s: float
    flops: float
    moved: float
    """Bytes that each rank reads: its weights and its part of the cache."""
    ranks: int
    is_memory_bound: bool


def of_step(found: Step, attainable: float | None = None) -> Efficiency:
    """Of a training step, under the attainable roof of its work where that is known."""
    host_ppm = round(found.parts.host / found.seconds * ONE_PPM)
    links_ppm = min(ONE_PPM - host_ppm, round(found.links * ONE_PPM))
    mfu_ppm = min(ONE_PPM - host_ppm - links_ppm, int(found.mfu * ONE_PPM))
    return Efficiency(mfu_ppm, host_ppm, links_ppm, Confidence.MODELLED, _ppm(attainable))


def of_decode(found: Decode, chip: Silicon, host_ppm: int = 0) -> Efficiency:
    """Of a service."""
    mfu = found.flops / (found.ranks * chip.peak * found.seconds)
    work = WorkPiece("token", found.flops / found.ranks, found.moved)
    roof = roofline.attainable((work,), Ceilings(chip.peak, chip.printed_memory))
    return shares(mfu, found.links_s / found.seconds, host_ppm, roof)


def of_samples(flops_each: float, per_s: float, chip: Silicon, host_ppm: int = 0) -> Efficiency:
    """Of a job of which only the samples are known; its links and its intensity are not."""
    return shares(min(1.0, flops_each * per_s / chip.peak), 0.0, host_ppm)


def shares(mfu: float, links: float, host_ppm: int, attainable: float | None = None) -> Efficiency:
    """Shares of the time without the host, stretched by it, in whole parts per million."""
    rest = ONE_PPM - host_ppm
    links_ppm = min(rest, round(links * rest))
    mfu_ppm = min(rest - links_ppm, int(mfu * rest))
    return Efficiency(mfu_ppm, host_ppm, links_ppm, Confidence.MODELLED, _ppm(attainable))


def decode(
    model: Model, stated: Parallelism, where: Machine, chip: Silicon, name: str = "bf16"
) -> Decode:
    """Every weight and the cache are read once; products; two all-reduces a layer.

    Stages of a pipeline each work on a batch of their own.
    """
    sequences = max(1, stated.batch // (stated.data * stated.pipeline))
    ranks = stated.tensor * stated.pipeline
    weights = models.parameters(model) * precision.size(name) / ranks
    heads = serving.cache_ranks(model, stated.tensor)
    cache = serving.cache_per_sequence(model, stated.sequence) / (heads * stated.pipeline)
    read_s = (weights + sequences * cache) / chip.memory
    each = flops.forward_per_token(model, stated.sequence).total
    compute_s = sequences * each / (ranks * chip.products)
    group = where.group("tensor", stated.tensor)
    said = collectives.all_reduce(group, WIDE * sequences * model.hidden)
    links_s = 2 * model.layers / stated.pipeline * said
    seconds = max(read_s, compute_s) + links_s
    busy = sequences * each / stated.pipeline  # of one stage; the others have their own sequences
    read = weights + sequences * cache
    return Decode(seconds, links_s, busy, read, stated.tensor, read_s > compute_s)


def _ppm(attainable: float | None) -> int | None:
    """At least one part: a roof is never nothing."""
    return None if attainable is None else max(1, round(attainable * ONE_PPM))
