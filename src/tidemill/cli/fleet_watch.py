"""All sources of a ``fleet.toml``: watched on one journal, or asked once to see who answers."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

import msgspec
import typer
from msgspec.structs import replace

from tidemill.cli import imports, observers, retention, screen
from tidemill.cli.fleet_file import FleetFile, PrometheusTable, in_keys
from tidemill.model.errors import BackendError, JournalError, SpecError
from tidemill.model.measures import FOREVER_MS, duration_text

if TYPE_CHECKING:
    from tidemill.live.history.rows import SeenNode

WEEK_MS = 7 * 86_400_000
CHECKED_MS = 600_000
"""So long a time of a source is looked at to see whether it answers."""
UNCERTAIN_MS = 5_000
"""A clock that is asked for by a command is known to a few seconds: Slurm tells whole ones."""


def watch(told: FleetFile, *, once: bool, as_json: bool) -> None:
    """Until a signal comes, or once."""
    from tidemill.live.observing.observer import ObserverTerms

    zone, now_ms = imports.checked_zone(told.fleet.zone), round(time.time() * 1000)
    begins_ms = imports.moment_ms(told.fleet.since or None, zone, "since")
    said = told.given
    rule = said.price_rule(zone, (now_ms if begins_ms is None else begins_ms, FOREVER_MS))
    _, gap_ms = observers.lengths(told.fleet.lateness, told.fleet.gap)
    pace = observers.AskingPace(told.fleet.every, once, as_json, told.fleet.keep)
    with ExitStack() as stack:
        clusters = told.clusters(stack)
        terms = ObserverTerms(
            rule, clusters.lateness_ms, gap_ms, zone, said.assumptions(), said.intent(zone),
            said.unheard,
        )  # fmt: skip
        folder = stack.enter_context(observers.listening(told.beside, told.journal))
        measuring = told.measuring(folder, clusters)
        observers.watch(clusters, told.journal, terms, measuring, begins_ms, pace, words=in_keys)


class CheckedSource(NamedTuple):
    """One source: whether it answers, and what."""

    source: str
    kind: str
    is_ok: bool
    found: str
    so: str = ""


def check(told: FleetFile, *, as_json: bool) -> None:
    """Ask every source once, and read all else that the file names; exit code 1 if any is amiss."""
    nodes = list["SeenNode"]()
    with ExitStack() as stack, screen.progress("asking"):
        found = [_asked("[fleet]", "zone, since", partial(_dates, told))]
        found += [_asked("[fleet]", "every, lateness, gap, keep", partial(_lengths, told))]
        found += [_journal(told)]
        found += [*_clusters(told, stack, nodes), *_measuring(told), *_loops(told)]
        found += [*_said(told, nodes)]
    if as_json:
        screen.json_out(msgspec.json.encode([one._asdict() for one in found]))
    else:
        made = screen.table("", "source", "what", "found", "so", right_from=9)
        for one in found:
            mark = screen.styled("[green]ok[/]" if one.is_ok else "[red]no[/]")
            made.add_row(mark, one.source, one.kind, one.found, one.so)
        screen.out().print(made)
    raise typer.Exit(0 if all(one.is_ok for one in found) else 1)


def _asked(name: str, kind: str, ask: Callable[[], str]) -> CheckedSource:
    try:
        return CheckedSource(name, kind, True, ask())
    except (BackendError, JournalError, SpecError) as error:
        return CheckedSource(name, kind, False, in_keys(error.message), in_keys(error.hint))


def _dates(told: FleetFile) -> str:
    """The zone, and the first date of a new journal."""
    zone = imports.checked_zone(told.fleet.zone)
    imports.moment_ms(told.fleet.since or None, zone, "--since")
    since = f"; a new journal begins at {told.fleet.since}" if told.fleet.since else ""
    return f"dates without a zone are of {zone}{since}"


def _lengths(told: FleetFile) -> str:
    """How often clusters are asked, and how late they may be."""
    fleet = told.fleet
    observers.lengths(fleet.lateness, fleet.gap)
    observers.every_s(fleet.every)
    retention.keep_ms_of(fleet.keep)
    kept = f"; what is older than {fleet.keep} is rolled up" if fleet.keep else ""
    told_late = f"told {fleet.lateness} behind, silent after {fleet.gap}"
    return f"asked every {fleet.every}, {told_late}{kept}"


def _zone(told: FleetFile) -> str:
    """The zone of the file; where it is none, which is said of it alone, UTC."""
    try:
        return imports.checked_zone(told.fleet.zone)
    except SpecError:
        return "UTC"


def _journal(told: FleetFile) -> CheckedSource:
    """Whether the journal is there, and of these clusters, and can be written."""
    from tidemill.journal import address

    shown = address.visible(told.journal)
    return _asked(shown, "journal", partial(_journal_found, told))


def _journal_found(told: FleetFile) -> str:
    from tidemill.journal import exists, open_journal
    from tidemill.journal.trying import refuse_unless_writable
    from tidemill.live.observing import observer

    refuse_unless_writable(told.journal)
    if not exists(told.journal):
        return "not there yet; `tidemill observe` begins it"
    with ExitStack() as stack, open_journal(told.journal) as journal:
        if len(journal):
            observer.refuse_other(journal, told.clusters(stack).name)
        return f"{screen.count(len(journal), 'event')}, to be gone on with"


def _said(told: FleetFile, nodes: "list[SeenNode]") -> Iterator[CheckedSource]:
    """Prices, assumptions, teams and intent, on the nodes that clusters showed."""
    yield _asked("[prices]", "prices", partial(_prices, told, nodes))
    if told.assume:
        yield _asked("[assume]", "assumptions", partial(_assumptions, told))
    if told.teams:
        names = screen.count(len(told.teams), "name")
        found = f"{names} of {screen.count(len({*told.teams.values()}), 'team')}"
        yield CheckedSource("[teams]", "teams", True, found)
    if told.fleet.spares or told.fleet.maintenance:
        yield _asked("[fleet]", "spares, maintenance", partial(_intent, told, nodes))


def _assumptions(told: FleetFile) -> str:
    from tidemill.live.history import assuming

    assuming.read(told.assume)
    return f"{', '.join(told.assume)}, where nothing is measured"


def _prices(told: FleetFile, nodes: "list[SeenNode]") -> str:
    from tidemill.live.history import fleet
    from tidemill.live.history.attempts import kind_of

    now_ms = round(time.time() * 1000)
    rule = told.given.price_rule(_zone(told), (now_ms, now_ms))
    without = sorted(node.name for node in nodes if not fleet.priced(node, rule).is_known)
    if not nodes:
        return "read; no node is there to be priced"
    some = f" ({', '.join(without[:3])}{' …' if len(without) > 3 else ''})" if without else ""
    if lost := told.given.unheard(kind_of((node.machine or node).gpu_type) for node in nodes):
        raise SpecError(lost, hint="check the spelling of the GPU types, or leave these out")
    return (
        f"{screen.count(len(nodes) - len(without), 'node')} with a price,"
        f" {len(without):,} without{some}"
    )


def _intent(told: FleetFile, nodes: "list[SeenNode]") -> str:
    intent = told.given.intent(_zone(told))
    if not nodes:
        return "read; no node is there to be named"
    if lost := intent.unmatched(nodes):
        raise SpecError(
            f"no node is called {', '.join(lost[:5])}",
            hint="names as `tidemill fleet` lists them: of several clusters, CLUSTER/NODE",
        )
    now_ms = round(time.time() * 1000)
    made = intent.of(nodes, now_ms, now_ms + WEEK_MS)
    spares = sum(bool(node.spare) for node in made)
    closed = sum(a.out != b.out for a, b in zip(made, nodes, strict=True))
    return f"{screen.count(spares, 'node')} kept as spares, {closed:,} with maintenance"


def _clusters(
    told: FleetFile, stack: ExitStack, nodes: "list[SeenNode]"
) -> Iterator[CheckedSource]:
    """What each cluster shows; ``nodes`` collects all of theirs, by the names of the books."""
    for name in told.names:
        alone = told._replace(
            slurm=[one for one in told.slurm if one.name == name],
            kubernetes=[one for one in told.kubernetes if one.name == name],
        )
        prefix = f"{name}/" if len(told.names) > 1 else ""
        kind = "Slurm" if alone.slurm else "Kubernetes"
        yield _asked(name, kind, partial(_shown, alone, stack, nodes, prefix))


def _shown(told: FleetFile, stack: ExitStack, nodes: "list[SeenNode]", prefix: str) -> str:
    """What a cluster shows."""
    cluster = told.clusters(stack)
    asked_s = time.time()
    now_ms = cluster.now_ms()
    clock = _clock(now_ms, round(1000 * asked_s), round(1000 * time.time()))
    answer = cluster.poll(now_ms - CHECKED_MS)
    nodes += [replace(node, name=prefix + node.name) for node in answer.nodes]
    gpus = round(sum(node.whole_gpus for node in answer.nodes))
    machines = {node.machine_name for node in answer.nodes}
    jobs = answer.attempts["job"].n_unique()
    there = f"{screen.count(len(machines), 'node')} with {screen.count(gpus, 'GPU')}"
    if any(note.startswith("may not read nodes:") for note in answer.notes):
        there = "how many nodes there are is unknown"
    return (
        f"{there}, {screen.count(jobs, 'job')} in the last 10 minutes{clock}{_denied(answer.notes)}"
    )


def _clock(now_ms: int, asked_ms: int, answered_ms: int) -> str:
    """That a clock differs from ours: by more than the time of the answer and what rounds it."""
    ahead_ms = max(0, now_ms - answered_ms) or min(0, now_ms - asked_ms)
    if abs(ahead_ms) <= UNCERTAIN_MS:
        return ""
    way = "ahead of" if ahead_ms > 0 else "behind"
    return f"; its clock is {duration_text(abs(ahead_ms))} {way} ours"


def _denied(notes: Sequence[str]) -> str:
    """What may not be read of a cluster, and what would allow it."""
    begins = "may not read "
    kinds = [note.removeprefix(begins).partition(":")[0] for note in notes
             if note.startswith(begins)]  # fmt: skip
    files = [note for note in notes if note.startswith("deploy/")]
    return "; ".join(("", begins + ", ".join(kinds), *files)) if kinds else ""


def _measuring(told: FleetFile) -> Iterator[CheckedSource]:
    for one in told.prometheus:
        host = urlsplit(one.url).netloc.rpartition("@")[2]  # an address may hold a password
        yield _asked(host or one.url, "Prometheus", partial(_metrics, told, one))


def _metrics(told: FleetFile, one: PrometheusTable) -> str:
    """What a Prometheus has of GPUs; its windows are as the file says."""
    told.measured_by(one, [""])
    url = one.url
    from tidemill.live.observing.measuring import PATIENCE_S
    from tidemill.live.prometheus import fetching
    from tidemill.live.prometheus.client import Access, Client

    now_ms = round(time.time() * 1000)
    with Client(
        url,
        Access.told(),
        patience_s=PATIENCE_S,
        timeout_s=fetching.ANSWER_S,
        within_s=fetching.ANSWERS_S,
    ) as client:
        names = fetching.names_of(client, now_ms - CHECKED_MS, now_ms)
    gpus, loads = screen.count(len(names.gpus), "metric"), screen.count(len(names.loads), "metric")
    return f"{gpus} of GPUs, {loads} of services in the last 10 minutes"


def _loops(told: FleetFile) -> Iterator[CheckedSource]:
    beside = told.beside
    if beside.track is not None and beside.listen is None:
        if beside.track.is_dir():
            count = sum(path.suffix == ".jsonl" for path in beside.track.iterdir())
            found = f"{screen.count(count, 'file')} of records"
            yield CheckedSource(str(beside.track), "loops (folder)", True, found)
        else:
            so = "it is read once it is there; jobs name it in TIDEMILL_TRACK"
            yield CheckedSource(str(beside.track), "loops (folder)", False, "no such folder", so)
    if beside.listen is not None:

        def listen() -> str:
            with observers.listening(beside, told.journal, is_said=False) as folder:
                return f"can listen; records go to {folder}"

        yield _asked(beside.listen, "loops (HTTP)", listen)
