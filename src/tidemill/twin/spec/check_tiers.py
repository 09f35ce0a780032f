"""Whether the tiers of a spec agree: in order, with nodes that carry their labels, and known to
whoever asks for one.
"""

from tidemill.engine.fold.topology import refuse_unless_nested
from tidemill.model.decoding import nearest
from tidemill.model.errors import EventRefused, SpecError
from tidemill.twin import fleet
from tidemill.twin.spec.errors import SpecPlace
from tidemill.twin.spec.tables import Spec, Traits


def check(spec: Spec) -> None:
    """Raise a SpecError at the first disagreement."""
    try:
        refuse_unless_nested(fleet.topology(spec))
    except EventRefused as error:
        raise SpecError(f"`{spec.source}`, [[tier]]: {error.message}", hint=error.hint) from error
    _refuse_labels_of_nobody(spec)
    for table, rows in (("workload", spec.workloads), ("job", spec.jobs)):
        for i, row in enumerate(rows, 1):
            _check_wishes(SpecPlace(spec.source, table, i, row.name), spec, row)


def _refuse_labels_of_nobody(spec: Spec) -> None:
    given = fleet.nodes_per(spec)
    known = {label for row in spec.contracts for label in (*given[row.name], *row.labels)}
    for i, tier in enumerate(spec.tiers, 1):
        if tier.label and tier.label not in known:
            SpecPlace(spec.source, "tier", i, tier.name).refuse(
                "label",
                f"no node will carry a label `{tier.label}`",
                hint="give a contract `nodes_per`, `nodes_per_rack` or `labels` with it",
            )


def _check_wishes(place: SpecPlace, spec: Spec, row: Traits) -> None:
    names = [tier.name for tier in spec.tiers]
    for field, asked in (("within", row.within), ("near", row.near)):
        if asked and asked not in names:
            hint = nearest(asked, names) if names else "describe the network with [[tier]] rows"
            place.refuse(field, f"no tier is called `{asked}`", hint=hint)
