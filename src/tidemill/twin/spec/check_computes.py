"""Whether what jobs say they compute can be: models, precisions, sizes that divide."""

from tidemill.model.errors import SpecError
from tidemill.model.measures import WHOLE_MILLI
from tidemill.twin import presets
from tidemill.twin.physics import Reckoning
from tidemill.twin.spec.check_jobs import size_milli
from tidemill.twin.spec.errors import SpecPlace
from tidemill.twin.spec.tables import Spec, Traits, WorkloadTable


def check(spec: Spec) -> None:
    """Raise a SpecError at the first job or workload that computes what cannot be."""
    for i, job in enumerate(spec.jobs, 1):
        _check(
            SpecPlace(spec.source, "job", i, job.name), job, spec, [job.accelerators * WHOLE_MILLI]
        )
    for i, workload in enumerate(spec.workloads, 1):
        place = SpecPlace(spec.source, "workload", i, workload.name)
        _check(place, workload, spec, sizes_milli(place, workload))


def sizes_milli(place: SpecPlace, row: WorkloadTable) -> list[int]:
    """The sizes that jobs of a workload may have: its own, else those of its preset."""
    if row.sizes or not row.preset:
        return [size_milli(place, text) for text in row.sizes]
    return [int(milli) for milli in presets.mix(row.preset).sizes.milli]


def _check(place: SpecPlace, row: Traits, spec: Spec, sizes: list[int]) -> None:
    """Refused unless one of the sizes works; of a workload, others have unknown efficiency."""
    if row.computes is None:
        return
    refusals = []
    for milli in sizes:
        try:
            Reckoning(row, spec, milli).efficiency  # noqa: B018 (asked for its refusals)
        except SpecError as error:
            refusals.append(error)
        else:
            return
    place.refuse("computes", refusals[-1].message, hint=refusals[-1].hint)
