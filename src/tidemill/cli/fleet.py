"""``tidemill fleet``: what is paid for, what exists, what can work, and what would fit."""

from typing import TYPE_CHECKING, Annotated

import typer

from tidemill.cli import options, screen
from tidemill.model.errors import SpecError
from tidemill.model.measures import dollars_text, duration_text, milli_text

if TYPE_CHECKING:
    from tidemill.explain.inventory import ContractRow, NodeRow, TeamRow
    from tidemill.model.world import World
    from tidemill.scheduling.schedulability import Fits, FreeLot
    from tidemill.scheduling.slices import Cut

JOBS_SHOWN = 4  # of a node; --json has all
LEGEND = (
    "usable: the share of what is free that jobs like those that arrived could take now",
    "if together: the same, and how many would fit, if what is free lay on as few nodes as it can",
)
ALONE = (
    "fit now: by free accelerators alone; CPU, memory, and which nodes jobs may use, leave fewer:"
    " usable counts with these"
)
PARTS = (
    "parts of GPUs (MIG instances, shares) are so much of a GPU in what is paid, schedulable and in"
    " use; where they are free, and with --nodes, they are counted one by one"
)
USABLE = "free: what new work may have; nothing of nodes that take none, or are kept as spares"
AT_MOST = (
    "cores and GiB free at an earlier moment: at most these; what work without GPUs held is known"
    " of the last look alone"
)
WORDS_SHOWN = 10  # nodes that are out; --nodes has all

EXAMPLES = options.example(
    "tidemill fleet -j out/demo.sqlite",
    "tidemill fleet --nodes --state cordoned --state repairing",
    "tidemill fleet --teams --at 3d12h --json",
)


def fleet(
    journal: options.Journal = options.DEFAULT_JOURNAL,
    at: options.At = None,
    nodes: Annotated[
        bool, typer.Option("--nodes", help="List the nodes: state, free accelerators, jobs.")
    ] = False,
    state: Annotated[
        list[str] | None,
        typer.Option("--state", help="With --nodes, only nodes in this state; may be repeated."),
    ] = None,
    teams: Annotated[
        bool, typer.Option("--teams", help="List what teams use, and their quotas.")
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Contracts and node states, paid but not schedulable in $/h, and how many jobs would fit."""
    from tidemill.cli import device_evidence
    from tidemill.cli.moment import world_at
    from tidemill.explain import inventory

    _refuse_unknown_states(state or [], inventory.STATES)
    world, _ = world_at(journal, at, notes_decider=False)  # no cause, no start
    if nodes or state:
        errors = device_evidence.of_nodes(journal, world)
        rows = inventory.nodes(world, state or (), errors)
        _show_nodes(rows, world, journal if as_json else "", is_past=at is not None)
    elif teams:
        _show_teams(inventory.teams(world), world, journal if as_json else "")
    else:
        _show_all(world, journal if as_json else "")


def _show_all(world: "World", journal: str) -> None:
    """Everything, as JSON where the journal is named for it."""
    import msgspec

    from tidemill.cli import tolerations
    from tidemill.explain import inventory
    from tidemill.scheduling import schedulability, slices

    rows, states = inventory.contracts(world), inventory.states(world)
    usual = tolerations.of_resources(world)
    lots, cuts = schedulability.survey(world, usual.pairs), slices.survey(world)
    if journal:
        found = [lot._asdict() | {"sizes": [fits._asdict() for fits in lot.sizes]} for lot in lots]
        cut = [row._asdict() | {"fits": [fits._asdict() for fits in row.fits]} for row in cuts]
        data = {"at_ms": world.now_ms, "contracts": rows, "node_states": states}
        screen.json_out(msgspec.json.encode(data | {"schedulability": found, "mig": cut}), journal)
        return
    _print_contracts(rows, world)
    told = ", ".join(f"{count:,} {state.replace('_', ' ')}" for state, count in states.items())
    screen.out().print(f"nodes: {told or 'none'}", markup=False, soft_wrap=True)
    _print_words(world)
    _print_lots(lots)
    for words in usual.assumed:
        screen.note(f"fit now: {words}")
    if lots and (words := tolerations.left_out(world, usual.pairs)):
        screen.note(words)
    if any(row.unit for row in world.contract_rows):
        screen.note(PARTS)
    if any(shape.elastic_role is not None for shape in world.shape_rows):
        screen.note("job size of an elastic job: the smallest with which it starts")
    _print_cuts(cuts)


def _print_words(world: "World") -> None:
    """Why nodes are out, as their own cluster says; the first of them by name."""
    said = [(world.node_rows[n].name, words) for n, words in world.node_words.items()]
    for name, words in sorted(said)[:WORDS_SHOWN]:
        screen.out().print(f"  {name}: {words}", markup=False, soft_wrap=True)
    if len(said) > WORDS_SHOWN:
        screen.note(f"and {len(said) - WORDS_SHOWN:,} more; --nodes lists all")


def _refuse_unknown_states(asked: list[str], known: tuple[str, ...]) -> None:
    for state in asked:
        if state not in known:
            raise SpecError(
                f"--state is `{state}`, which is not a node state",
                hint=f"states: {', '.join(known)}",
            )


def _show_nodes(
    rows: "list[NodeRow]", world: "World", journal: str, *, is_past: bool
) -> None:  # fmt: skip
    import msgspec

    from tidemill.cli import device_evidence
    from tidemill.cli.device_evidence import NodeErrors
    from tidemill.ledger.touched import contract_word

    now_ms = world.now_ms
    if journal:
        screen.json_out(msgspec.json.encode({"at_ms": now_ms, "nodes": rows}), journal)
        return
    made = screen.table("node", "GPU type", contract_word(world), "state", "for", "GPUs", "failed",
                        "free", "cores free", "GiB free", "jobs", right_from=5)  # fmt: skip
    made.columns[10].justify, made.columns[10].no_wrap = "left", False
    has_words = any(row.reason for row in rows)
    has_errors = any(row.errors for row in rows)
    if has_words:
        made.add_column("its cluster says")
    if has_errors:
        made.add_column("XIDs")
    for row in rows:
        jobs = ", ".join(row.jobs[:JOBS_SHOWN])
        if len(row.jobs) > JOBS_SHOWN:
            jobs += f" and {len(row.jobs) - JOBS_SHOWN:,} more"
        made.add_row(
            row.node, row.kind, row.contract, row.state, duration_text(now_ms - row.since_ms),
            ("≥ " if row.free_milli is None else "") + f"{row.accelerators:,}",
            f"{row.failed:,}" if row.failed else "",
            "?" if row.usable_milli is None else milli_text(row.usable_milli),
            "?" if row.cpu_free_milli is None else milli_text(row.cpu_free_milli),
            "?" if row.memory_free_mib is None else f"{row.memory_free_mib / 1024:,.0f}", jobs,
            *([row.reason] if has_words else []),
            *([", ".join(str(one.xid) for one in row.errors)] if has_errors else []),
        )  # fmt: skip
    screen.out().print(made)
    _note_nodes(rows, world, is_past=is_past)
    if has_errors:
        told = [NodeErrors(row.node, row.state, row.errors) for row in rows if row.errors]
        for line in device_evidence.lines(told, now_ms):
            screen.out().print(line, markup=False, soft_wrap=True)
        screen.note(device_evidence.LEGEND)


def _note_nodes(rows: "list[NodeRow]", world: "World", *, is_past: bool) -> None:
    """What a list of nodes leaves unsaid."""
    from tidemill.cli import tolerations

    if any(row.free_milli != row.usable_milli for row in rows):
        screen.note(USABLE)
    if words := tolerations.on_nodes(world):
        screen.note(words)
    if is_past and world.is_observed:
        screen.note(AT_MOST)


def _show_teams(rows: "list[TeamRow]", world: "World", journal: str) -> None:
    import msgspec

    if journal:
        screen.json_out(msgspec.json.encode({"teams": rows}), journal)
        return
    made = screen.table("team", "above it", "GPU type", "in use", "guaranteed quota",
                        "maximum quota", right_from=3)  # fmt: skip
    for row in rows:
        unsaid = "not told" if world.is_observed else "none"
        most = unsaid if row.maximum_milli is None else milli_text(row.maximum_milli)
        sure = milli_text(row.guaranteed_milli)
        if world.is_observed and not row.guaranteed_milli:
            sure = unsaid
        made.add_row(row.team, row.parent, row.kind, milli_text(row.used_milli), sure, most)
    screen.out().print(made)


def _print_contracts(rows: "list[ContractRow]", world: "World") -> None:
    from tidemill.ledger.touched import contract_word
    from tidemill.reservation.types import PAID

    terms = PAID if world.is_observed else {}
    how = "is paid" if world.is_observed else "terms"
    made = screen.table(contract_word(world), "GPU type", how, "paid", "launched", "schedulable",
                        "in use", "not schedulable $/h", right_from=3)  # fmt: skip
    for row in rows:
        counts = (row.paid_milli, row.launched_milli, row.can_work_milli, row.in_use_milli)
        made.add_row(
            row.contract, row.kind, terms.get(row.terms, row.terms),
            *(milli_text(count) for count in counts), dollars_text(row.seam_usd_micro_per_hour),
        )  # fmt: skip
    screen.out().print(made)


def _print_lots(lots: "tuple[FreeLot, ...]") -> None:
    """What is free of each kind and pool, what the mix of arrivals could use of it, and by size."""
    made = screen.table("GPU type", "pool", "free", "on nodes", "usable", "if together", "job size",
                        "arrived", "fit now", "if together", right_from=2)  # fmt: skip
    made.columns[6].justify = "left"
    for lot in lots:
        head = (lot.kind, lot.pool or "all", milli_text(lot.free_milli), f"{lot.nodes:,}",
                _share(lot.usable_milli, lot.free_milli),
                _share(lot.consolidated_milli, lot.free_milli))  # fmt: skip
        for i, fits in enumerate(lot.sizes):
            made.add_row(*("" if i else part for part in head), _size(fits), f"{fits.arrivals:,}",
                         f"{fits.now:,}", f"{fits.consolidated:,}")  # fmt: skip
        made.add_section()
    if lots:
        screen.out().print(made)
        for line in LEGEND:
            screen.note(line)
        if any(map(_leaves_fewer, lots)):
            screen.note(ALONE)


def _leaves_fewer(lot: "FreeLot") -> bool:
    """Whether what is free is less to jobs like those that arrived than its sizes alone say."""
    arrived = [fits for fits in lot.sizes if fits.arrivals and fits.now]
    alone = sum(
        fits.arrivals * fits.now * fits.replicas * fits.accelerators * fits.milli
        for fits in arrived
    )  # fmt: skip
    return lot.usable_milli is not None and alone // lot.arrivals > lot.usable_milli


def _print_cuts(cuts: "tuple[Cut, ...]") -> None:
    """Devices that carry MIG instances, and how many more of each profile would fit."""
    made = screen.table("GPU type", "cut devices", "free in them", "stranded", "profile",
                        "fit beside", "fit on empty")  # fmt: skip
    made.columns[4].justify = "left"
    for cut in cuts:
        head = (cut.kind, f"{cut.devices:,}", milli_text(cut.free_milli),
                milli_text(cut.stranded_milli))  # fmt: skip
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
    replica = milli_text(fits.accelerators * fits.milli)
    return replica if fits.replicas == 1 else f"{fits.replicas:,}×{replica}"
