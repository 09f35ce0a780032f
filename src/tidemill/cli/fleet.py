"""``tidemill fleet``: what is paid for, what exists, what can work, and what would fit."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tidemill.cli import options, screen
from tidemill.model.measures import dollars_text

if TYPE_CHECKING:
    from tidemill.model.world import World
    from tidemill.scheduling.schedulability import Fits, Lot
    from tidemill.scheduling.slices import Cut

EXAMPLES = options.example("tidemill fleet -j out/demo.sqlite", "tidemill fleet --at 3d12h --json")


def fleet(
    journal: options.Journal = options.DEFAULT_JOURNAL,
    at: options.At = None,
    as_json: options.Json = False,
) -> None:
    """Contracts and their nodes, the seam in $/h, and how many jobs of each size would fit."""
    import msgspec

    from tidemill.cli.moment import world_at
    from tidemill.scheduling import schedulability, slices

    world, _ = world_at(journal, at)
    rows, lots, cuts = list(_rows(world)), schedulability.survey(world), slices.survey(world)
    if as_json:
        found = [lot._asdict() | {"sizes": [fits._asdict() for fits in lot.sizes]} for lot in lots]
        cut = [row._asdict() | {"fits": [fits._asdict() for fits in row.fits]} for row in cuts]
        data = {"contracts": rows, "schedulability": found, "mig": cut}
        screen.json_out(msgspec.json.encode(data), journal)
        return
    _print_contracts(rows)
    _print_lots(lots)
    _print_cuts(cuts)


def _print_contracts(rows: "list[dict[str, str | int]]") -> None:
    made = screen.table("contract", "kind", "terms", "paid", "launched", "can work", "in use",
                        "seam $/h", right_from=3)  # fmt: skip
    for row in rows:
        counts = (row["paid_milli"], row["launched_milli"], row["can_work_milli"],
                  row["in_use_milli"])  # fmt: skip
        made.add_row(str(row["contract"]), str(row["kind"]), str(row["terms"]),
                     *(f"{int(count) / 1000:,g}" for count in counts),
                     dollars_text(int(row["seam_usd_micro_per_hour"])))  # fmt: skip
    screen.out().print(made)


def _print_lots(lots: "tuple[Lot, ...]") -> None:
    """What is free of each kind and pool, what the mix of arrivals could use of it, and by size."""
    made = screen.table("kind", "pool", "free", "on nodes", "usable", "if together", "a job of",
                        "arrived", "fit now", "if together", right_from=2)  # fmt: skip
    made.columns[6].justify = "left"
    for lot in lots:
        head = (lot.kind, lot.pool or "all", f"{lot.free_milli / 1000:,g}", f"{lot.nodes:,}",
                _share(lot.usable_milli, lot.free_milli),
                _share(lot.consolidated_milli, lot.free_milli))  # fmt: skip
        for i, fits in enumerate(lot.sizes):
            made.add_row(*("" if i else part for part in head), _size(fits), f"{fits.arrivals:,}",
                         f"{fits.now:,}", f"{fits.consolidated:,}")  # fmt: skip
        made.add_section()
    if lots:
        screen.out().print(made)


def _print_cuts(cuts: "tuple[Cut, ...]") -> None:
    """Devices that carry MIG instances, and how many more of each profile would fit."""
    made = screen.table("kind", "cut devices", "free in them", "stranded", "profile",
                        "fit beside", "fit on empty")  # fmt: skip
    made.columns[4].justify = "left"
    for cut in cuts:
        head = (cut.kind, f"{cut.devices:,}", f"{cut.free_milli / 1000:,g}",
                f"{cut.stranded_milli / 1000:,g}")  # fmt: skip
        for i, fits in enumerate(cut.fits):
            made.add_row(*("" if i else part for part in head), fits.profile,
                         f"{fits.beside:,}", f"{fits.empty:,}")  # fmt: skip
        made.add_section()
    if cuts:
        screen.out().print(made)


def _share(milli: int | None, free_milli: int) -> str:
    """A part of what is free; a dash where nobody asked, or nothing is free."""
    return "-" if milli is None or not free_milli else f"{milli / free_milli:.1%}"


def _size(fits: "Fits") -> str:
    replica = f"{fits.accelerators * fits.milli / 1000:g}"
    return replica if fits.replicas == 1 else f"{fits.replicas:,}×{replica}"


def _rows(world: "World") -> Iterator[dict[str, str | int]]:
    from tidemill.model.world import Level
    from tidemill.reservation.seam import seams

    for seam in seams(world):
        c = world.contract_number[seam.contract]
        row = world.contract_rows[c]
        yield {
            "contract": row.name,
            "kind": row.kind,
            "terms": row.terms.value,
            "paid_milli": seam.paid_milli,
            "launched_milli": seam.launched_milli,
            "can_work_milli": seam.schedulable_milli,
            "in_use_milli": int(world.levels[c, Level.ALLOCATED]),
            "seam_usd_micro_per_hour": seam.gap_usd_micro_per_hour,
        }
