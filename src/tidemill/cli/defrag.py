"""``tidemill defrag``: which moves of running work would start a waiting job, and their price."""

from typing import TYPE_CHECKING, Annotated

import typer

from tidemill.cli import options, screen
from tidemill.cli.job_names import job_number
from tidemill.model.measures import dollars_text, milli_text

if TYPE_CHECKING:
    from tidemill.explain.defragment import Defrag

EXAMPLES = options.example(
    "tidemill defrag train-0042 -j out/demo.sqlite", "tidemill defrag train-0042 --at 3d12h --json"
)


def defrag(
    job: Annotated[str, typer.Argument(help="The name of a waiting job.")],
    journal: options.Journal = options.DEFAULT_JOURNAL,
    at: options.At = None,
    as_json: options.Json = False,
) -> None:
    """What would have to move so that this job starts now? A plan to read; nothing is done.

    The moves are those that `why` names. When the job starts without them is forecast.
    """
    import msgspec

    from tidemill import explain
    from tidemill.cli.moment import one_question, sides_of, world_at

    world, policy = world_at(journal, at)
    j = job_number(world, job, journal, at)
    sides = sides_of(journal, world, policy)
    with one_question(world) as memo:
        found = explain.defrag(world, policy, j, memo, sides)
    if as_json:
        screen.json_out(msgspec.json.encode(found), journal, at=at)
        return
    screen.out().print(found.words, markup=False, soft_wrap=True)
    if found.moves:
        _print_moves(found)


def _print_moves(found: "Defrag") -> None:
    made = screen.table("job", "leaves", "goes to", "GPUs", "lost work", right_from=3)
    for move in found.moves:
        made.add_row(
            move.job,
            ", ".join(move.leaves),
            ", ".join(move.goes_to),
            milli_text(move.accelerator_milli),
            dollars_text(move.lost_usd_micro),
        )
    screen.out().print(made)
