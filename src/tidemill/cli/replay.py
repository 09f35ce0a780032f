"""``tidemill twin replay``: what another policy would have done with a recorded history."""

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidemill.cli import options, screen
from tidemill.cli.policy_file import PolicyFile
from tidemill.model.errors import SpecError

if TYPE_CHECKING:
    from tidemill.api import Replay

Into = Annotated[
    str | None,
    typer.Option(
        "--into",
        help="The journal of what would have been (default: beside the other, with `-shadow`).",
        metavar="PATH|URL",
    ),
]
ShadowOf = Annotated[
    str,
    typer.Option(
        "--shadow-of",
        help="Whose jobs are placed anew, where a cluster has several schedulers; those of others"
        " are taken as they were seen (default: the cluster's own, or whose journal it is).",
        metavar="NAME",
    ),
]
EXAMPLES = options.example(
    "tidemill twin replay fleet.sqlite --policy policy.toml",
    "tidemill twin replay fleet.sqlite --into what-if.sqlite --json",
    "tidemill ledger diff fleet.sqlite fleet-shadow.sqlite",
)


@options.takes_journal
def replay(
    journal: options.Journal = options.DEFAULT_JOURNAL,
    policy: Annotated[
        Path | None,
        typer.Option(
            "--policy",
            help="How work is placed, and who may use how much: the tables policy, team and tier"
            " of a fleet file (default: Tidemill's own).",
            metavar="FILE",
        ),
    ] = None,
    into: Into = None,
    shadow_of: ShadowOf = "",
    force: options.Force = False,
    as_json: options.Json = False,
) -> None:
    """Play the recorded history of a real fleet again with a policy, and compare in dollars.

    Jobs come when they came and work as long as they were seen to; nodes are as they were. Who sits
    where, and from when on, is the policy's. Pods that had a place when the journal began keep it.
    """
    target = beside(journal) if into is None else into
    if target == journal or (
        "://" not in target and Path(target).resolve() == Path(journal).resolve()
    ):
        raise SpecError(
            f"--into is `{target}`, the journal that is to be played again",
            hint="what would have been is a journal of its own: give it another name",
        )
    done = play(journal, target, PolicyFile(policy), shadow_of, force=force)
    show(done, (journal, target), as_json=as_json)


def beside(journal: str) -> str:
    """Where the shadow of a journal is written, if nobody says it."""
    if "://" in journal:
        raise SpecError(
            "a journal in a database has no file beside it",
            hint="say with --into where to write what would have been",
        )
    path = Path(journal)
    return str(path.with_name(f"{path.stem}-shadow{path.suffix}"))


def play(
    journal: str,
    into: str,
    rules: PolicyFile,
    shadow_of: str,
    *,
    force: bool,
    is_quiet: bool = False,
) -> "Replay":
    """The history of a journal, played again."""
    from tidemill import api

    found = rules.read()
    way = api.replacing_run(into, is_forced=True) if force else nullcontext()
    if not force:
        api.refuse_existing(into, may_resume=False, what="a replay", option="--into")
    shown = (
        nullcontext(None) if is_quiet else screen.progress(f"playing {Path(journal).name} again")
    )
    with shown as update, way:
        return api.replay(
            journal, found.policy, into, queues=found.fleet.queues, topology=found.fleet.topology,
            shadow_of=shadow_of, on_progress=update,
        )  # fmt: skip


def show(done: "Replay", names: tuple[str, str], *, as_json: bool) -> None:
    """What was, and what would have been."""
    import msgspec

    from tidemill.advise.shadow import comparing
    from tidemill.cli import shadow_tables

    sides = (done.seen, done.shadow.statement)
    if as_json:
        found = comparing.document(sides, names, done.report)
        screen.json_out(msgspec.json.format(msgspec.json.encode(found), indent=2), *names)
        return
    shadow_tables.print_report(sides, done.report)
    screen.note(f"journal of what would have been: {names[1]}")
