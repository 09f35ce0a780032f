"""Other words for the fields of a spec file, as people of other systems know them.

``read_as`` gives a row in our own words and says which words it took for which. Two words for one
field in one row are refused: nobody can say which was meant.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from tidemill.model.decoding import shown
from tidemill.twin.spec.errors import SpecPlace

TABLES = {
    **dict.fromkeys(("queue", "queues", "teams"), "team"),
    "jobs": "job",
    "workloads": "workload",
    "contracts": "contract",
}
"""Other names of tables."""

_GPU_TYPE = ("gpu_type", "gpu_model", "accelerator_type")
_WORK = {
    "queue": "team",
    "gpus": "accelerators",
    "gpu_count": "accelerators",
    **dict.fromkeys((*_GPU_TYPE, "gpu_types", "kind"), "kinds"),
    **dict.fromkeys(("cpu_per_gpu", "cpus_per_gpu"), "cpu_per_accelerator"),
    "memory_gib_per_gpu": "memory_gib_per_accelerator",
}
FIELDS: Mapping[str, Mapping[str, str]] = {
    "contract": {
        **dict.fromkeys(("gpus", "gpu_count", "accelerators"), "count"),
        **dict.fromkeys(_GPU_TYPE, "kind"),
        "gpus_per_node": "accelerators_per_node",
        "cpus_per_node": "cpu_per_node",
        "usd_per_gpu_hour": "usd_per_hour",
    },
    "team": {
        **dict.fromkeys(
            ("quota", "guaranteed_quota", "nominal_quota", "deserved", "guarantee"), "guaranteed"
        ),
        **dict.fromkeys(("min", "minimum"), "guaranteed"),
        **dict.fromkeys(("max", "maximum_quota", "limits"), "maximum"),
        "borrowing_limit": "borrow",
        "lending_limit": "lend",
    },
    "job": {**_WORK, **dict.fromkeys(("duration", "runtime", "run_time"), "work")},
    "workload": {**_WORK, "jobs_per_day": "per_day"},
}
"""By table: the word that was written, and the field that it means. The note says so."""
EARLIER = {"team": {"floor": "guaranteed", "limit": "maximum"}}
"""Words that were ours until now; they are read without a note."""

VALUES: Mapping[tuple[str, str], Mapping[str, str]] = {
    ("policy", "placement"): {
        **dict.fromkeys(("binpack", "bin-pack", "bin_pack", "binpacking", "bin-packing"), "pack"),
        **dict.fromkeys(("bestfit", "best_fit"), "best-fit"),
        "dot_product": "dot-product",
    },
    ("policy", "order"): {"fcfs": "fifo", "sjf": "shortest", "las": "attained"},
    ("contract", "terms"): {
        **dict.fromkeys(("on-demand", "ondemand"), "on_demand"),
        "committed": "reserved",
        "preemptible": "spot",
    },
    ("job", "class"): {"train": "training", "serving": "inference", "notebook": "interactive"},
    ("workload", "class"): {"train": "training", "serving": "inference", "notebook": "interactive"},
    ("twin", "sharing"): {
        **dict.fromkeys(("time-slicing", "time_slice", "timeslice", "timeslicing"), "time-slice"),
    },
}
"""By table and field: another word for one of its values."""


def read_as(raw: dict[str, Any], place: SpecPlace) -> tuple[dict[str, Any], tuple[str, ...]]:
    """A row in our own words, and what was taken for what."""
    notes: list[str] = []
    row = _renamed(raw, place, notes)
    _nodes(row, place, notes)
    _sizes(row, place, notes)
    if place.table in ("job", "workload") and isinstance(row.get("kinds"), str):
        row["kinds"] = [row["kinds"]]
    for field, value in row.items():
        others = VALUES.get((place.table, field), {})
        if isinstance(value, str) and value in others:
            row[field] = others[value]
            notes.append(f'{field} = "{value}" is read as "{others[value]}"')
        elif isinstance(value, list) and others:
            row[field] = [others.get(v, v) if isinstance(v, str) else v for v in value]
            notes += [f'"{v}" is read as "{others[v]}"' for v in value if _is_in(v, others)]
    return row, tuple(notes)


def _renamed(raw: dict[str, Any], place: SpecPlace, notes: list[str]) -> dict[str, Any]:
    silent = EARLIER.get(place.table, {})
    known = {**FIELDS.get(place.table, {}), **silent}
    row: dict[str, Any] = {}
    written: dict[str, str] = {}
    for word, value in raw.items():
        field = known.get(word, word)
        if field in row:
            found = f"`{written[field]}` and `{word}` mean the same field"
            place.refuse("", found, hint=f"give one of them; we call it `{field}`")
        if field != word and word not in silent:
            notes.append(f"`{word}` is read as `{field}`")
        row[field], written[field] = value, word
    return row


def _nodes(row: dict[str, Any], place: SpecPlace, notes: list[str]) -> None:
    """``nodes`` times what each of them has, where somebody counts in nodes."""
    if "nodes" not in row or place.table not in ("contract", "job"):
        return
    field = "count" if place.table == "contract" else "accelerators"
    each = row.get("accelerators_per_node", 8 if place.table == "contract" else None)
    if place.table == "job":
        each = row.pop("gpus_per_node", row.pop("accelerators_per_node", None))
    nodes = row.pop("nodes")
    if field in row:
        found = f"`nodes` and `{field}` mean the same thing"
        place.refuse("", found, hint=f"give one of them; we count in `{field}`")
    if not _is_whole(nodes) or not _is_whole(each):
        place.refuse(
            "nodes",
            f"expected a whole number of nodes, and how many GPUs each has; found {shown(nodes)}",
            hint="for example nodes = 2 with gpus_per_node = 8, or accelerators = 16",
        )
    row[field] = nodes * each
    notes.append(f"`nodes = {nodes}` of {each} each is read as `{field} = {nodes * each}`")


def _sizes(row: dict[str, Any], place: SpecPlace, notes: list[str]) -> None:
    """A workload of one size may say so as a job does."""
    if place.table != "workload" or "accelerators" not in row or "sizes" in row:
        return
    size = row.pop("accelerators")
    row["sizes"] = {str(size): 1}
    notes.append(
        f"`accelerators = {shown(size)}` is read as `sizes = {{ {shown(str(size))} = 1 }}`"
    )


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= 10_000_000


def _is_in(value: object, words: Mapping[str, str]) -> bool:
    return isinstance(value, str) and value in words


def told(notes: Iterator[tuple[SpecPlace, str]]) -> tuple[str, ...]:
    """One note for all rows of a table that say the same."""
    counts: dict[tuple[str, str, str], int] = {}
    for place, note in notes:
        key = (place.source, place.table if not place.row else f"[{place.table}]", note)
        counts[key] = counts.get(key, 0) + 1
    return tuple(
        f"`{source}`, [{table}]: {note}" + (f" (in {count:,} rows)" if count > 1 else "")
        for (source, table, note), count in counts.items()
    )
