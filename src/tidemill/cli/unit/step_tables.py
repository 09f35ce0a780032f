"""How ``tidemill unit step`` shows a step, the quickest plans, and a job of a twin."""

from typing import TYPE_CHECKING, Any

from tidemill.cli import screen
from tidemill.cli.bars import bar
from tidemill.model.errors import SpecError
from tidemill.model.measures import ONE_PPM, WHOLE_MILLI

if TYPE_CHECKING:
    from tidemill.model.rows import Efficiency
    from tidemill.twin.physics import Reckoning
    from tidemill.twin.spec.tables import Spec, Traits
    from tidemill.units.search import RunPlan
    from tidemill.units.step import Step, TrainingRun

FORMULA = (
    "step = micro-batches × slowest stage + (stages − 1) / chunks × mean stage + sends + exposed"
    " gradients + optimiser + host; bubble = what is left after the mean stage's own work;"
    " MFU = model FLOPs / (accelerators × printed peak × step)"
)
SOURCE = (
    "Narayanan et al. 2021 (arXiv 2104.04473), Korthikanti et al. 2022 (arXiv 2205.05198),"
    " Thakur et al. 2005; constants in units/achieved_rates.py, errors in bench/README.md"
)
TITLES = {
    "compute": "compute",
    "attention": "attention",
    "recompute": "recomputation",
    "tensor": "tensor-parallel communication",
    "context": "context-parallel communication",
    "expert": "expert all-to-all",
    "pipeline_bubble": "pipeline bubble",
    "pipeline_send": "pipeline sends",
    "data": "gradient reduction, exposed",
    "optimiser": "optimiser",
    "host": "host stall",
}


def one(run: "TrainingRun", host_share: float, *, as_json: bool) -> None:
    """A step, part by part."""
    import msgspec

    from tidemill.units import memory
    from tidemill.units.step import step

    found = step(run, host_share)
    held = memory.training(run.model, run.stated, run.how).total
    if as_json:
        screen.json_out(msgspec.json.encode(document(run, found, held)))
        return
    _print_parts(found, f"{run.model.key} on {found.ranks:,} {run.machine.part.key}")
    _print_sums(run, found, held)
    _print_formula()


def plans(base: "TrainingRun", units: int, *, as_json: bool) -> None:
    """The quickest plans that fit."""
    import msgspec

    from tidemill.units import search

    found = search.quickest(base, units)
    if not found:
        raise SpecError(
            f"no way to divide `{base.model.key}` over {units:,} {base.machine.part.key} fits with"
            f" a batch of {base.stated.batch:,}",
            hint="more accelerators, --zero 3 or another --batch; see `tidemill unit fit --train`",
        )
    if as_json:
        rows = [document(plan.run, plan.step, plan.held) for plan in found]
        screen.json_out(msgspec.json.encode({"plans": rows}))
        return
    _print_plans(found, units)
    _print_formula()


def job(file: str, name: str, *, as_json: bool) -> None:
    """How the efficiency of a job of a spec comes about."""
    import msgspec

    from tidemill.twin.physics import Reckoning
    from tidemill.twin.spec import fleet_spec

    parsed = fleet_spec.load(file)
    row = _row(parsed, name)
    if row.computes is None or row.mfu is not None:
        raise SpecError(
            f"the efficiency of `{name}` is as `{file}` gives it, not from physics",
            hint="`computes` without `mfu` is from physics; see docs/guides/describe-a-fleet.md",
        )
    found = [Reckoning(row, parsed, milli) for milli in _sizes(row, file)]
    found = [one for one in found if _divides(one)]
    if as_json:
        screen.json_out(msgspec.json.encode({"job": name, "sizes": [_why(one) for one in found]}))
        return
    for one in found:
        _print_job(name, one)
    _print_formula()


def document(run: "TrainingRun", found: "Step", held: float) -> dict[str, Any]:
    """A step as data."""
    from tidemill.units import fitting

    room = fitting.usable(run.machine.part)
    return {
        "model": run.model.key,
        "part": run.machine.part.key,
        "units": found.ranks,
        "division": run.stated,
        "program": run.how,
        "hiding": run.hiding,
        "seconds": found.seconds,
        "parts_s": found.parts._asdict(),
        "tokens_per_s": found.tokens / found.seconds,
        "mfu": found.mfu,
        "hfu": found.hfu,
        "links": found.links,
        "held_gb": held / 1e9,
        "usable_gb": room / 1e9,
        "fits": held <= room,
        "formula": FORMULA,
        "source": SOURCE,
    }


def _print_parts(found: "Step", title: str) -> None:
    made = screen.table("part of a step", "ms", "share", "", title=title)
    made.columns[3].justify = "left"
    for name, seconds in found.parts._asdict().items():
        if seconds:
            share = seconds / found.seconds
            made.add_row(TITLES[name], f"{1000 * seconds:,.1f}", f"{share:.1%}", bar(share, 40))
    made.add_row("step", f"{1000 * found.seconds:,.1f}", "100.0%", "")
    screen.out().print(made)


def _print_sums(run: "TrainingRun", found: "Step", held: float) -> None:
    from tidemill.units import fitting

    room = fitting.usable(run.machine.part)
    out = screen.out()
    rate = found.tokens / found.seconds
    out.print(
        f"{rate:,.0f} tokens/s, {rate / found.ranks:,.0f} per accelerator; MFU {found.mfu:.1%},"
        f" HFU {found.hfu:.1%}; {found.links:.1%} of the step on links"
    )
    fits = "fits" if held <= room else "does not fit: more stages, --recompute full or --zero 3"
    out.print(f"each accelerator holds {held / 1e9:,.1f} of {room / 1e9:,.1f} usable GB: {fits}")


def _print_plans(found: "list[RunPlan]", units: int) -> None:
    base = found[0].run
    made = screen.table("tp", "pp", "dp", "ep", "micro", "chunks", "recompute", "step s", "MFU",
                        "links", "bubble", "holds GB", "", right_from=0,
                        title=f"{base.model.key} on {units:,} {base.machine.part.key}, batch "
                        f"{base.stated.batch:,} × {base.stated.sequence:,} tokens")  # fmt: skip
    made.columns[12].justify = "left"
    for plan in found:
        stated, how, step = plan.run.stated, plan.run.how, plan.step
        bubble = step.parts.pipeline_bubble / step.seconds
        made.add_row(
            str(stated.tensor), str(stated.pipeline), str(stated.data), str(stated.expert),
            str(how.micro_batch), str(how.interleave), how.recompute.value,
            f"{step.seconds:,.2f}", f"{step.mfu:.1%}", f"{step.links:.1%}", f"{bubble:.1%}",
            f"{plan.held / 1e9:,.1f}", bar(step.mfu / found[0].step.mfu, 16),
        )  # fmt: skip
    screen.out().print(made)


def _print_formula() -> None:
    screen.note(f"{FORMULA}\nsource: {SOURCE}")


def _row(parsed: "Spec", name: str) -> "Traits":
    from tidemill.model.decoding import nearest

    rows: dict[str, Traits] = {row.name: row for row in (*parsed.jobs, *parsed.workloads)}
    stem = name.rpartition("-")[0]
    found = rows.get(name) or rows.get(stem)  # `tune-8b-00012` is of the workload `tune-8b`
    if found is None:
        raise SpecError(
            f"`{parsed.source}` has no job or workload `{name[:100]}`", hint=nearest(name, rows)
        )
    return found


def _sizes(row: "Traits", source: str) -> list[int]:
    from tidemill.twin.spec.check_computes import sizes_milli
    from tidemill.twin.spec.errors import SpecPlace
    from tidemill.twin.spec.tables import JobTable, WorkloadTable

    if isinstance(row, JobTable):
        return [row.accelerators * WHOLE_MILLI]
    assert isinstance(row, WorkloadTable)
    return sizes_milli(SpecPlace(source, "workload", 0, row.name), row)


def _divides(found: "Reckoning") -> bool:
    """Sizes that its parallelism does not divide have unknown efficiency, and nothing to show."""
    try:
        return found.efficiency.confidence is not None
    except SpecError:
        return False


def _why(found: "Reckoning") -> dict[str, Any]:
    shares: dict[str, Any] = {
        "accelerators": found.accelerators,
        "part": found.part.key,
        "efficiency": found.efficiency,
        "formula": FORMULA,
        "source": SOURCE,
    }
    if found.step is not None:
        shares |= {"seconds": found.step.seconds, "parts_s": found.step.parts._asdict()}
    return shares


def _print_job(name: str, found: "Reckoning") -> None:
    title = f"{name} on {found.accelerators:,} {found.part.key}"
    if found.step is not None:
        _print_parts(found.step, title)
    else:
        screen.out().print(title, style="bold")
    screen.out().print(_shares(found.efficiency))


def _shares(found: "Efficiency") -> str:
    below = ONE_PPM - found.host_ppm - found.links_ppm - found.mfu_ppm
    bound = found.memory_bound_ppm
    parts = (
        ("stalled: host", found.host_ppm),
        ("stalled: communication", found.links_ppm),
        *(
            [("below peak, split unknown", below)]
            if bound is None
            else [("memory-bound", bound), ("below the attainable roof", below - bound)]
        ),
        ("useful", found.mfu_ppm),
    )
    return "in the ledger: " + ", ".join(f"{title} {ppm / 1e4:.2f}%" for title, ppm in parts)
