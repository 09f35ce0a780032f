"""What kinds of work ask of a box, for one unit of work (a token, an image) and at rest.

Language models lie across all parts of one box (tensor parallel), numbers of two bytes, training
state of 16 bytes a parameter (Rajbhandari et al. 2020, arXiv 1910.02054). Formulas, with P
parameters, L layers of width h, n parts:

- training: 3 × forward FLOPs; memory 6 P / tokens of a micro-batch (weights read twice, gradients
  written) + 28 P / tokens of a step (optimiser) + 68 L h (activations written and read; 34 of
  Korthikanti et al. 2022, arXiv 2205.05198); four all-reduces of a layer's output over the link;
  gradients over the network once a step (ring: twice 2 P).
- decode: forward FLOPs; memory 2 P / sequences in the batch + the key-value cache of a sequence;
  two all-reduces a layer.
- prefill: forward FLOPs; memory 2 P / tokens of the prompt + its cache, written.
- vision: ResNet-50 (3.8 × 10^9 multiply-adds forward, He et al. 2015, arXiv 1512.03385); memory
  as an H100's 2,800 images a second imply; decoding and storage as in ``host``.
"""

from enum import Enum
from typing import Annotated, NamedTuple

from msgspec import Meta, Struct

from tidemill.units import flops, models, serving
from tidemill.units.host import H100_TB_S, IMAGES
from tidemill.units.models import Model

STATE_BYTES = 16
WIDE = 2
TOKEN_BYTES = 8
TEXT_BYTES = 100  # a streamed token with its envelope
RESNET_FLOPS = 3 * 2 * 3.8e9
RESNET_PARAMETERS = 25.6e6
RESNET_BATCH = 256
IMAGES_STORED = 138e9

_Size = Annotated[int, Meta(ge=1, le=100_000_000)]


class BoxResource(Enum):
    """What a box has. ``memory``, ``ram`` and ``disk`` are room, the others rates."""

    FLOPS = "FLOPs"
    MEMORY = "memory"
    BANDWIDTH = "bandwidth"
    LINK = "link"
    NETWORK = "network"
    HOST_LINK = "host link"
    CORES = "cores"
    RAM = "RAM"
    DISK = "disk"


ROOM = (BoxResource.MEMORY, BoxResource.RAM, BoxResource.DISK)


class WorkDemand(NamedTuple):
    """One kind of work on one box: what a unit of it takes of each rate, and the room it holds."""

    name: str
    unit: str
    takes: dict[BoxResource, float]
    """FLOPs, bytes and core-seconds of one unit of work, all parts together."""
    holds: dict[BoxResource, float]
    """Bytes of room, all parts together; core-seconds a second that are held at any pace."""


class ModelRun(Struct, frozen=True, kw_only=True):
    """How language models are run."""

    sequence: _Size = 4096
    """Tokens of a training sequence, and of a decoded one at its mean."""
    micro: _Size = 8192
    """Tokens of a micro-batch."""
    step: _Size = 524_288
    """Tokens of a step for each box."""
    batch: _Size = 64
    """Sequences that are decoded at once."""
    prompt: _Size = 2048


def training(model: Model, parts: int, how: ModelRun) -> WorkDemand:
    """A token of training."""
    size = models.parameters(model)
    kept = 34 * model.layers * model.hidden
    takes = {
        BoxResource.FLOPS: 3 * flops.forward_per_token(model, how.sequence / 2).total,
        BoxResource.BANDWIDTH: 6 * size / how.micro + 28 * size / how.step + 2 * kept,
        BoxResource.LINK: _reduced(model, parts, times=4),
        BoxResource.NETWORK: 2 * WIDE * size / how.step,
        BoxResource.HOST_LINK: TOKEN_BYTES,
    }
    state = STATE_BYTES * size
    holds = {
        BoxResource.MEMORY: state + kept * how.micro,
        BoxResource.RAM: state,
        BoxResource.DISK: 2.0 * state,
        BoxResource.CORES: parts,
    }
    return WorkDemand("training", "token", takes, holds)


def decode(model: Model, parts: int, how: ModelRun) -> WorkDemand:
    """A token of an answer."""
    size = models.parameters(model)
    cache = serving.cache_per_sequence(model, how.sequence)
    takes = {
        BoxResource.FLOPS: flops.forward_per_token(model, how.sequence).total,
        BoxResource.BANDWIDTH: WIDE * size / how.batch + cache,
        BoxResource.LINK: _reduced(model, parts, times=2),
        BoxResource.NETWORK: TEXT_BYTES,
        BoxResource.HOST_LINK: TOKEN_BYTES,
    }
    return WorkDemand("decode", "token", takes, _served(size, how.batch * cache, parts))


def prefill(model: Model, parts: int, how: ModelRun) -> WorkDemand:
    """A token of a prompt."""
    size = models.parameters(model)
    cache = serving.cache_per_token(model)
    takes = {
        BoxResource.FLOPS: flops.forward_per_token(model, how.prompt / 2).total,
        BoxResource.BANDWIDTH: WIDE * size / how.prompt + cache,
        BoxResource.LINK: _reduced(model, parts, times=2),
        BoxResource.NETWORK: TEXT_BYTES,
        BoxResource.HOST_LINK: TOKEN_BYTES,
    }
    return WorkDemand("prefill", "token", takes, _served(size, how.prompt * cache, parts))


def vision(parts: int) -> WorkDemand:
    """An image of training; every part has a model of its own."""
    assert IMAGES.per_core_s is not None
    takes = {
        BoxResource.FLOPS: RESNET_FLOPS,
        BoxResource.BANDWIDTH: H100_TB_S * 1e12 / IMAGES.per_device_s,
        BoxResource.LINK: 2 * (parts - 1) * 4 * RESNET_PARAMETERS / (RESNET_BATCH * parts),
        BoxResource.NETWORK: IMAGES.stored_bytes,
        BoxResource.HOST_LINK: IMAGES.device_bytes,
        BoxResource.CORES: 1 / IMAGES.per_core_s,
    }
    holds = {
        BoxResource.MEMORY: STATE_BYTES * RESNET_PARAMETERS * parts,
        BoxResource.DISK: IMAGES_STORED,
        BoxResource.CORES: 0.0,
    }
    return WorkDemand("vision", "image", takes, holds)


def _served(size: float, cache: float, parts: int) -> dict[BoxResource, float]:
    weights = WIDE * size
    return {
        BoxResource.MEMORY: weights + cache,
        BoxResource.RAM: weights,
        BoxResource.DISK: weights,
        BoxResource.CORES: parts,
    }


def _reduced(model: Model, parts: int, times: int) -> float:
    """Bytes that all links carry for one token: a ring sends each part 2 (n-1)/n of the sum."""
    return model.layers * times * WIDE * model.hidden * 2 * (parts - 1)
