"""The time of a training step, part by part; the parts add up to it.

A pipeline of ``p`` stages with ``v`` chunks each works through ``m`` micro-batches in

    m × slowest stage + (p − 1) / v × mean stage + sends + exposed gradients + optimiser

(one forward, one backward: Narayanan et al. 2021). Every stage is charged its mean work; what is
left of the time is the *bubble*: filling, draining, and waiting for the slowest stage. Gradients
are summed once a step, weights gathered where ZeRO divides them, behind the last backward pass
where the program hides it.
"""

from typing import NamedTuple

from tidemill.model.topology import Parallelism
from tidemill.units import achieved_rates, collectives, flops, memory, partition_check
from tidemill.units.achieved_rates import WIDE
from tidemill.units.layer import LayerCase, Work, layer
from tidemill.units.links import RankGroup
from tidemill.units.machine import Machine
from tidemill.units.models import Model
from tidemill.units.overlap import BACKWARD_SHARE, Hiding, shown_s
from tidemill.units.training import Training, optimiser

LOGITS_BYTES = 16
"""Of memory traffic for each logit: written, read for the loss in 32 bits, and back."""


class Parts(NamedTuple):
    """Seconds of a step on the mean rank."""

    compute: float
    """Matrix products, and what is bound by memory between them."""
    attention: float
    recompute: float
    """Compute a second time, its communication left out."""
    tensor: float
    context: float
    expert: float
    pipeline_bubble: float
    pipeline_send: float
    data: float
    """What of it nothing else hides."""
    optimiser: float
    host: float
    """Waiting for the input pipeline."""


COMMUNICATION = ("tensor", "context", "expert", "pipeline_send", "data")
"""Parts in which the accelerator waits for links. The bubble is not among them: it is waiting for
other stages, whatever the links."""


class Step(NamedTuple):
    """A step and what became of it."""

    parts: Parts
    tokens: int
    model_flops: float
    """On all ranks, nothing computed twice, the mask not taken off."""
    hardware_flops: float
    ranks: int
    peak: float

    @property
    def seconds(self) -> float:
        """All parts together."""
        return sum(self.parts)

    @property
    def mfu(self) -> float:
        """Model FLOPs over what the printed rate would do."""
        return self.model_flops / (self.ranks * self.peak * self.seconds)

    @property
    def hfu(self) -> float:
        """The same with what was computed again."""
        return self.hardware_flops / (self.ranks * self.peak * self.seconds)

    @property
    def links(self) -> float:
        """The share of the step in which the accelerator waits for links."""
        waits = sum(getattr(self.parts, name) for name in COMMUNICATION)
        return float(waits) / self.seconds


class TrainingRun(NamedTuple):
    """A training job as the model sees it."""

    model: Model
    stated: Parallelism
    how: Training
    hiding: Hiding
    machine: Machine
    precision: str = "bf16"


def step(run: TrainingRun, host_share: float = 0.0) -> Step:
    """The time of one step; of which a given share is spent waiting for the host.

    A parallelism that does not divide the model is refused, with what would.
    """
    partition_check.check(run.model, run.stated, run.how.micro_batch, run.how.interleave)
    return unchecked(run, host_share)


def unchecked(run: TrainingRun, host_share: float = 0.0) -> Step:
    """The same for sizes that are known to divide, or whose model is only roughly known."""
    stated = run.stated
    chip = achieved_rates.of(run.machine.part, run.precision)
    case = LayerCase(run.model, stated, run.how, run.hiding, run.machine, chip)
    whole = parts(case)
    if host_share:
        whole = whole._replace(host=sum(whole) * host_share / (1 - host_share))
    ranks = stated.tensor * stated.context * stated.pipeline * stated.data
    return Step(
        whole,
        stated.batch * stated.sequence,
        flops.training(run.model, stated.batch, stated.sequence).total,
        flops.executed(run.model, stated.batch, stated.sequence, run.how.recompute).total,
        ranks,
        chip.peak,
    )


def parts(case: LayerCase) -> Parts:
    """The parts of a step, the host left out."""
    stages, chunks = case.stated.pipeline, case.how.interleave
    many = micro_batches(case.stated, case.how)
    stage = stages_of(case)
    send = 2 * chunks * _send_s(case)
    mean, worst = stage.mean.total, stage.worst_s
    shown = 0.0 if case.hiding.pipeline else send
    fill = (stages - 1) * (mean + send) / chunks
    bubble = many * (worst - mean) + fill if stages > 1 else 0.0
    work, again = stage.once.times(many), stage.again.times(many)
    waits = work + again
    return Parts(
        work.products + work.passes,
        work.attention,
        again.products + again.passes + again.attention,
        waits.tensor,
        waits.context,
        waits.expert,
        bubble,
        many * shown,
        _data_s(case, mean),
        _optimiser_s(case),
        0.0,
    )


class Stages(NamedTuple):
    """One micro-batch, there and back: on the mean stage, and on the slowest."""

    once: Work
    again: Work
    worst_s: float

    @property
    def mean(self) -> Work:
        """Everything on the mean stage."""
        return self.once + self.again


def stages_of(case: LayerCase) -> Stages:
    """What the stages of a pipeline do for one micro-batch."""
    stages = case.stated.pipeline
    plain, routed = (layer(case, routed=some) for some in (False, bool(case.model.experts)))
    first = case.model.layers - case.model.expert_layers
    once = (plain.forward + plain.backward).times(first)
    once += (routed.forward + routed.backward).times(case.model.expert_layers)
    again = plain.again.times(first) + routed.again.times(case.model.expert_layers)
    head = _head(case)
    layers = partition_check.stage_layers(case.model, stages, case.how.interleave)
    most = max(layers) if layers else -(-case.model.layers // stages)
    last = layers[-1] if layers else most
    each = (once + again).total / case.model.layers
    worst_s = max(most * each, last * each + head.total)
    return Stages((once + head).times(1 / stages), again.times(1 / stages), worst_s)


def _head(case: LayerCase) -> Work:
    """The output layer and the loss, forward and backward, and the embedding."""
    rows, ranks = case.tokens, case.stated.tensor
    words = case.model.vocabulary / ranks
    products = 3 * case.silicon.product_s(rows, words, case.model.hidden)
    passes = case.silicon.pass_s(rows * words * LOGITS_BYTES + 3 * case.activation, 6)
    tensor = collectives.all_reduce(case.machine.group("tensor", ranks), case.activation)
    return Work(products=products, passes=passes, tensor=tensor)


def micro_batches(stated: Parallelism, how: Training) -> int:
    """Of one data-parallel rank in a step."""
    return max(1, stated.batch // (stated.data * how.micro_batch))


def _send_s(case: LayerCase) -> float:
    """One activation to the next stage: each tensor rank sends a part, and they gather it."""
    stated = case.stated
    if stated.pipeline == 1:
        return 0.0
    stride = stated.tensor * stated.context * stated.data
    path = case.machine.group("pipeline", stated.pipeline, stride)
    sent = collectives.send(path, case.activation / stated.tensor)
    if case.how.is_sequence_parallel:
        return sent
    return sent + collectives.all_gather(
        case.machine.group("tensor", stated.tensor), case.activation
    )


def _parameters(case: LayerCase) -> tuple[float, float]:
    """On one rank of the first stage: those that all data ranks have, and those of its experts."""
    stated, how = case.stated, case.how
    if not partition_check.stage_layers(case.model, stated.pipeline, how.interleave):
        from_all = case.model.layers / stated.pipeline
        kinds = memory.Kinds(round(from_all), 0)
    else:
        kinds = memory.layers_of(case.model, stated.pipeline, how.interleave)[0]
    return memory.parameters(case.model, stated, kinds, 0)


def _data_s(case: LayerCase, mean_s: float) -> float:
    """Gradients summed, weights gathered; what of it is not behind compute."""
    stated, how = case.stated, case.how
    shared, routed = _parameters(case)
    ranks, stride = stated.data * stated.context, stated.tensor
    total = 0.0
    for size, among, apart in (
        (shared, ranks, stride),
        (routed, ranks // stated.expert, stride * stated.expert),
    ):
        if among > 1 and size:
            total += _exchange_s(case, size, case.machine.group("data", among, apart))
    many = micro_batches(stated, how)
    behind = mean_s * (many if how.zero == 3 else BACKWARD_SHARE)
    if not case.hiding.data:
        return total
    edge = total / max(1, many * case.model.layers / stated.pipeline)  # the last layer's own
    return shown_s(total, behind, edge)


def _exchange_s(case: LayerCase, size: float, group: RankGroup) -> float:
    """What data-parallel ranks say to each other about so many parameters in a step."""
    bytes_each = optimiser(case.how.optimiser).gradients
    if case.how.zero == 0:
        return collectives.all_reduce(group, bytes_each * size)
    messages = 1.0
    if case.how.zero == 3:  # layer by layer, each when it is needed
        messages = max(1.0, case.model.layers / case.stated.pipeline)
    scatter = messages * collectives.reduce_scatter(group, bytes_each * size / messages)
    gather = messages * collectives.all_gather(group, WIDE * size / messages)
    if case.how.zero < 3:
        return scatter + gather
    return micro_batches(case.stated, case.how) * (2 * gather + scatter)


def _optimiser_s(case: LayerCase) -> float:
    """One pass over what it keeps, there and back, and three over the gradients."""
    cost = optimiser(case.how.optimiser)
    size = sum(_parameters(case))
    if case.how.zero:
        size /= case.stated.data * case.stated.context
    return case.silicon.pass_s(size * (2 * cost.kept + 3 * cost.gradients + cost.weights), 8)
