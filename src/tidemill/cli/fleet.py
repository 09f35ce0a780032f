"""``tidemill fleet``: what is paid for, what exists, what can work, and the price of the gap."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tidemill.cli import options, screen
from tidemill.model.measures import dollars_text

if TYPE_CHECKING:
    from tidemill.model.world import World

EXAMPLES = options.example("tidemill fleet -j out/demo.sqlite", "tidemill fleet --at 3d12h --json")


def fleet(
    journal: options.Journal = options.DEFAULT_JOURNAL,
    at: options.At = None,
    as_json: options.Json = False,
) -> None:
    """Contracts and their nodes: paid, launched, able to work, in use; and the seam in $/h."""
    import msgspec

    from tidemill.cli.moment import world_at

    world, _ = world_at(journal, at)
    rows = list(_rows(world))
    if as_json:
        screen.json_out(msgspec.json.encode(rows))
        return
    made = screen.table("contract", "kind", "terms", "paid", "launched", "can work", "in use",
                        "seam $/h", right_from=3)  # fmt: skip
    for row in rows:
        counts = (row["paid_milli"], row["launched_milli"], row["can_work_milli"],
                  row["in_use_milli"])  # fmt: skip
        made.add_row(str(row["contract"]), str(row["kind"]), str(row["terms"]),
                     *(f"{int(count) / 1000:,g}" for count in counts),
                     dollars_text(int(row["seam_usd_micro_per_hour"])))  # fmt: skip
    screen.out().print(made)


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
