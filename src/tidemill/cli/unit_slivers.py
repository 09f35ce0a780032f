"""``tidemill unit slivers``: whole accelerators of a fleet that are held for a sliver of work."""

from typing import TYPE_CHECKING

from tidemill.cli import options, screen
from tidemill.model.measures import dollars_text

if TYPE_CHECKING:
    from tidemill.explain.slivers import Slivers

EXAMPLES = options.example(
    "tidemill unit slivers -j out/demo.sqlite", "tidemill unit slivers --at 3d12h --json"
)
SHOWN = 20


def slivers(
    journal: options.Journal = options.DEFAULT_JOURNAL,
    at: options.At = None,
    as_json: options.Json = False,
) -> None:
    """Jobs that hold whole accelerators and use less than half of every axis, and what it costs.

    By what jobs said they use (`uses` in a spec, `demand` on a job): compute, memory bandwidth and
    memory. Says how many devices would do if those that fit together shared them.
    """
    import msgspec

    from tidemill import api
    from tidemill.cli.moment import world_at
    from tidemill.explain import slivers as found_by
    from tidemill.units.catalogue.book import Catalogue

    world, _ = world_at(journal, at)
    with api.open_journal(journal) as opened:
        said = found_by.demands(opened.read())
    found = found_by.find(world, said, Catalogue())
    if as_json:
        rows = [row._asdict() for row in found.held]
        screen.json_out(msgspec.json.encode(found._asdict() | {"held": rows}))
        return
    _print(found)


def _print(found: "Slivers") -> None:
    made = screen.table("job", "team", "kind", "devices", "compute", "bandwidth", "memory", "$/h",
                        right_from=3)  # fmt: skip
    for row in found.held[:SHOWN]:
        made.add_row(row.job, row.team, row.kind, f"{row.devices:,}",
                     *(f"{ppm / 10_000:.0f} %" for ppm in row.axes),
                     dollars_text(row.usd_micro_per_hour))  # fmt: skip
    if found.held:
        screen.out().print(made)
    if len(found.held) > SHOWN:
        screen.note(f"and {len(found.held) - SHOWN:,} more; --json has all of them")
    freed = dollars_text(found.freed_usd_micro_per_hour)
    screen.out().print(
        f"{screen.count(found.devices, 'device')} held for slivers; {found.would_do:,} would do "
        f"if those that fit together shared: {freed} an hour",
        soft_wrap=True,
    )
    if found.unknown:
        screen.note(f"{screen.count(found.unknown, 'job')} on whole devices did not say what they "
                    "use (`uses`: compute, bandwidth, memory_gb)")  # fmt: skip
