"""``tidemill unit underused``: whole GPUs of a fleet that are held by jobs which use little."""

from typing import TYPE_CHECKING

from tidemill.cli import options, screen
from tidemill.model.measures import dollars_text

if TYPE_CHECKING:
    from tidemill.explain.slivers import Slivers

EXAMPLES = options.example(
    "tidemill unit underused -j out/demo.sqlite", "tidemill unit underused --at 3d12h --json"
)
SHOWN = 20


def underused(
    journal: options.Journal = options.DEFAULT_JOURNAL,
    at: options.At = None,
    as_json: options.Json = False,
) -> None:
    """Under-used whole GPUs: jobs that use less than half of compute, bandwidth and memory.

    Of replicas with one whole GPU each, by what jobs said they use (`uses` in a spec, `demand` on
    a job). Says how many GPUs would be enough if jobs that fit together shared them, and what
    that saves.
    """
    import msgspec

    from tidemill import api
    from tidemill.cli.moment import world_at
    from tidemill.explain import slivers as found_by
    from tidemill.units.catalogue.book import Catalogue

    world, _ = world_at(journal, at, notes_decider=False)  # no cause, no start
    with api.open_journal(journal) as opened:
        said = found_by.demands(opened.read())
    found = found_by.find(world, said, Catalogue())
    if as_json:
        rows = [row._asdict() for row in found.held]
        screen.json_out(msgspec.json.encode(found._asdict() | {"held": rows}), journal)
        return
    _print(found)


def _print(found: "Slivers") -> None:
    made = screen.table("job", "team", "GPU type", "GPUs", "compute", "bandwidth", "memory", "$/h",
                        right_from=3)  # fmt: skip
    for row in found.held[:SHOWN]:
        made.add_row(row.job, row.team, row.kind, f"{row.devices:,}",
                     *(f"{ppm / 10_000:.0f} %" for ppm in row.axes),
                     dollars_text(row.usd_micro_per_hour))  # fmt: skip
    if found.held:
        screen.out().print(made)
    if len(found.held) > SHOWN:
        screen.note(f"and {len(found.held) - SHOWN:,} more; --json has all of them")
    screen.out().print(_verdict(found), soft_wrap=True)
    if found.unknown:
        screen.note(
            f"not counted: {screen.count(found.unknown, 'job')} with single-GPU replicas that did "
            "not say what they use (`uses`: compute, bandwidth, memory_gb)"
        )


def _verdict(found: "Slivers") -> str:
    """What sharing would free; nothing is said of jobs that nobody knows anything of."""
    if not found.held:
        some = "said what they use" if found.unknown else "run"
        return f"none of the jobs with single-GPU replicas that {some} leaves its GPU under-used"
    freed = dollars_text(found.freed_usd_micro_per_hour)
    return (
        f"{screen.count(found.devices, 'whole GPU')} under-used; {found.would_do:,} would be "
        f"enough if jobs that fit together shared: saves {freed} an hour"
    )
