"""Plans: of all ways to divide a model over so many units, those that fit and step quickest."""

from collections.abc import Iterator
from typing import NamedTuple

from msgspec.structs import replace

from tidemill.model.topology import Parallelism
from tidemill.units import fitting, memory, partition_check
from tidemill.units.flops import Recompute
from tidemill.units.step import Step, TrainingRun, unchecked

CHUNKS = (1, 2, 3, 4, 5, 6, 8, 10)
MICRO_BATCHES = (1, 2, 4, 8)


class RunPlan(NamedTuple):
    """A way to run it, what a step takes, and what a unit then holds."""

    run: TrainingRun
    step: Step
    held: float
    """Bytes on the unit that holds most."""


def quickest(
    base: TrainingRun, units: int, most: int = 5, reserve: float = fitting.RESERVE
) -> list[RunPlan]:
    """The quickest plans that fit, each with another division; ties go to the simpler one.

    Searched: tensor ranks inside the scale-up domain, stages, chunks, micro-batches, expert groups
    and recomputation. Sequence, batch, context ranks and ZeRO are as stated.
    """
    room = fitting.usable(base.machine.part, reserve)
    best: dict[tuple[int, int, int], tuple[tuple[float, ...], RunPlan]] = {}
    for run in _runs(base, units):
        held = memory.training(run.model, run.stated, run.how).total
        if held > room:
            continue
        found = unchecked(run)
        sizes = (run.stated.tensor, run.stated.pipeline, run.stated.expert)
        order = (found.seconds, run.how.interleave, run.how.micro_batch)
        if sizes not in best or order < best[sizes][0]:
            best[sizes] = (order, RunPlan(run, found, held))
    ranked = sorted(best.items(), key=lambda item: (item[1][0], item[0]))
    return [plan for _, (_, plan) in ranked[:most]]


def _runs(base: TrainingRun, units: int) -> Iterator[TrainingRun]:
    for stated in _divisions(base, units):
        for chunks in CHUNKS:
            for micro in MICRO_BATCHES:
                how = replace(base.how, interleave=chunks, micro_batch=micro)
                if _is_possible(base, stated, chunks, micro):
                    for again in Recompute:
                        yield base._replace(stated=stated, how=replace(how, recompute=again))


def _divisions(base: TrainingRun, units: int) -> Iterator[Parallelism]:
    model, context = base.model, base.stated.context
    near = [
        t for t in partition_check.tensor_sizes(model) if t <= base.machine.ladder.rungs[0].ranks
    ]
    groups = partition_check.divisors(model.experts) if model.experts else (1,)
    for tensor in near:
        for stages in partition_check.stage_counts(model):
            data, rest = divmod(units, tensor * context * stages)
            if rest or not data:
                continue
            for expert in groups:
                if data * context % expert == 0:
                    yield replace(
                        base.stated, tensor=tensor, pipeline=stages, data=data, expert=expert
                    )


def _is_possible(base: TrainingRun, stated: Parallelism, chunks: int, micro: int) -> bool:
    together = stated.data * micro
    if stated.batch % together or not partition_check.stage_layers(
        base.model, stated.pipeline, chunks
    ):
        return False
    return chunks == 1 or stated.batch // together % stated.pipeline == 0
