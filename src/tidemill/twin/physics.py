"""Physics of a spec's jobs: the efficiency of work that says what it computes (``computes``).

Reckoned at submission, for the first kind of accelerator that the job may use and at the best
place the fleet has for it: a worse place slows the gang on top (``twin.pace``). The network is
that of the ``[[tier]]`` rows; where there are none, that of a box with such accelerators in the
catalogue.
"""

from functools import cached_property

from msgspec import structs

from tidemill.model.errors import SpecError
from tidemill.model.measures import ONE_PPM, WHOLE_MILLI
from tidemill.model.rows import Efficiency
from tidemill.model.states import JobClass
from tidemill.model.topology import Parallelism
from tidemill.scheduling.topology.hops import Sizes
from tidemill.twin import fleet
from tidemill.twin.spec.tables import Computes, ContractTable, Spec, Traits
from tidemill.units import (
    achieved_rates,
    efficiency,
    host,
    kernel_work,
    machine,
    parallelism,
    partition_check,
    roofline,
    slowdown,
)
from tidemill.units.catalogue.book import Catalogue
from tidemill.units.catalogue.rows import Part
from tidemill.units.flops import Recompute
from tidemill.units.links import Link, two_levels
from tidemill.units.machine import Machine
from tidemill.units.model_zoo import Zoo
from tidemill.units.models import Model
from tidemill.units.overlap import Hiding
from tidemill.units.step import Step, TrainingRun, unchecked
from tidemill.units.training import Training

UNPACKED = 6.0
"""Of a stored sample, its size on the device, where nobody said: photographs as bytes of pixels."""


def efficiency_of(row: Traits, spec: Spec, milli: int, mfu_ppm: int) -> Efficiency:
    """How the productive time of a job of this size divides: as given, or by physics."""
    if row.mfu is not None or row.computes is None:
        return fleet.efficiency(row, mfu_ppm)
    try:
        return Reckoning(row, spec, milli).efficiency
    except SpecError:  # a size by chance that its parallelism does not divide: nothing is made up
        return Efficiency()


class Reckoning:
    """One job of a spec, and what follows from what it computes."""

    def __init__(self, row: Traits, spec: Spec, milli: int) -> None:
        assert row.computes is not None, "only of work that says what it computes"
        self.row, self.spec, self.computes = row, spec, row.computes
        self.accelerators = max(1, milli // WHOLE_MILLI)
        self.contract = fleet.usable(spec.contracts, row.kinds)[0]

    @cached_property
    def part(self) -> Part:
        """What the first kind that the job may use is in the catalogue."""
        return Catalogue().part(self.contract.kind)

    @cached_property
    def chip(self) -> achieved_rates.Silicon:
        """What such a part reaches."""
        return achieved_rates.of(self.part, self.computes.precision)

    @cached_property
    def model(self) -> Model | None:
        """The model it names, or the one that its figures make; None: samples only."""
        if self.computes.model:
            return Zoo().model(self.computes.model)
        return slowdown.model_of(self.stated)

    @cached_property
    def stated(self) -> Parallelism:
        """How it divides that."""
        found = fleet.parallelism(self.row, self.accelerators)
        if found is not None:
            return found
        if self.row.parallelism is None:
            return Parallelism(data=self.accelerators)
        given = self.row.parallelism
        inner = given.tensor * given.context * given.pipeline
        raise SpecError(
            f"{self.accelerators} accelerators are no multiple of tensor × context × pipeline,"
            f" {inner}",
            hint=f"{max(1, self.accelerators // inner) * inner} accelerators would be",
        )

    @cached_property
    def host_ppm(self) -> int:
        """How much of its time it waits for its input."""
        wants = self.computes
        if not wants.samples_per_s:
            return 0
        found = host.host_stall_ppm(supply(self.row, self.contract, self.part), intake(wants))
        return min(found, ONE_PPM - 1)  # however starved, a step ends

    @cached_property
    def step(self) -> Step | None:
        """The step of a training job of which the model is known."""
        if self.model is None or self.row.job_class is JobClass.INFERENCE:
            return None
        if not (self.stated.batch and self.stated.sequence):
            raise SpecError(
                "a training step has a `batch` and a `sequence`",
                hint="give them in `parallelism`: { tensor = 8, sequence = 8192, batch = 256 }",
            )
        how = self.how
        if self.computes.model:
            partition_check.check(self.model, self.stated, how.micro_batch, how.interleave)
        run = TrainingRun(
            self.model, self.stated, how, Hiding(), self.where, self.computes.precision
        )
        return unchecked(run, self.host_ppm / ONE_PPM)

    @cached_property
    def attainable(self) -> float:
        """The roof of a training step at the arithmetic intensity of its parts, over the peak."""
        assert self.model is not None, "only of a step"
        once = structs.replace(
            self.how, recompute=Recompute.NONE
        )  # what is computed again is no roof
        pieces = kernel_work.step(self.model, self.stated, once)
        return roofline.attainable(pieces, roofline.ceilings(self.part, self.computes.precision))

    @cached_property
    def how(self) -> Training:
        """The choices of its program."""
        given = self.computes
        return Training(
            micro_batch=given.micro_batch, interleave=given.interleave,
            recompute=given.recompute, zero=given.zero,
        )  # fmt: skip

    @cached_property
    def where(self) -> Machine:
        """The best place for it: hops that the fleet's domains could give each of its groups."""
        return place(self.spec, self.contract, self.part, self.stated)

    @cached_property
    def efficiency(self) -> Efficiency:
        """How its productive time divides."""
        if self.step is not None:
            return efficiency.of_step(self.step, self.attainable)
        if self.model is not None:
            found = efficiency.decode(
                self.model, self.stated, self.where, self.chip, self.computes.precision
            )
            return efficiency.of_decode(found, self.chip, self.host_ppm)
        if not (self.computes.gflop_per_sample and self.computes.samples_per_s):
            raise SpecError(
                "`computes` names no model, and no samples with their operations",
                hint="give `model`, or `gflop_per_sample` and `samples_per_s`",
            )
        flops = self.computes.gflop_per_sample * 1e9
        return efficiency.of_samples(flops, self.computes.samples_per_s, self.chip, self.host_ppm)


def intake(wants: Computes) -> host.Intake:
    """What one sample costs on its way."""
    stored = wants.kb_per_sample * 1e3
    return host.Intake(
        stored_bytes=stored,
        device_bytes=(wants.kb_on_device * 1e3) or UNPACKED * stored,
        per_core_s=wants.samples_per_core_s or None,
        per_device_s=wants.samples_per_s,
    )


def supply(row: Traits, contract: ContractTable, part: Part) -> host.HostSupply:
    """The host's side of a node: the processors the job asked for, or its part of all of them."""
    devices = contract.accelerators_per_node
    cores = int(row.cpu_per_accelerator) * devices or int(contract.cpu_per_node)
    assert row.computes is not None
    return host.HostSupply(
        devices=devices,
        cores=max(1, cores // WHOLE_MILLI),
        network_gb_s=row.computes.read_gb_per_s or None,
        host_link_gb_s=part.host_link_gb_s,
    )


def place(spec: Spec, contract: ContractTable, part: Part, stated: Parallelism) -> Machine:
    """The links that the groups of a job cross at best."""
    per_node = contract.accelerators_per_node
    topology = fleet.topology(spec)
    if topology.tiers:
        best = _tiers(spec, contract)
        hops = {name: best.hop(span) for name, span in parallelism.groups(stated)}
        reach = slowdown.reaches(topology, stated, per_node, hops)
        if reach is not None:
            nowhere = two_levels(per_node, Link(1.0, 0.0), Link(1.0, 0.0))
            return Machine(part, nowhere, reach)
    return machine.of(part, per_node, machine.network_gb_s(Catalogue(), part, per_node))


def _tiers(spec: Spec, contract: ContractTable) -> Sizes:
    per_node, nodes_per = contract.accelerators_per_node, fleet.nodes_per(spec)[contract.name]
    found = []
    for tier in spec.tiers:
        if tier.label:
            nodes = nodes_per.get(tier.label)
            found.append(min(contract.count, nodes * per_node if nodes else contract.count))
        else:
            found.append(min(per_node, tier.devices or per_node))
    return Sizes(tuple(found))
