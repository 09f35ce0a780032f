"""``tidemill why`` and ``fit``: why a job waits, and when it would start."""

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from tidemill.cli import options, screen
from tidemill.cli.job_names import full, held_job, job_number, names_of
from tidemill.cli.suggested import located
from tidemill.model.errors import SpecError
from tidemill.model.measures import milli_text

if TYPE_CHECKING:
    from tidemill.explain.answers import Alternative, Answer, Certificate, Forecast
    from tidemill.explain.decision.answers import Decision
    from tidemill.model.held import UnplacedJob
    from tidemill.model.policy import Policy
    from tidemill.model.rows import Job
    from tidemill.model.world import World

WHY_EXAMPLES = options.example(
    "tidemill why train-0042 -j out/demo.sqlite",
    "tidemill why train-0042 --at 3d12h --nodes",
    "tidemill why train-0042 --eta --json",
)
FIT_EXAMPLES = options.example(
    "tidemill fit --team research --gpus 64 --per-node 8 --gpu-type H100 --hours 12",
    "tidemill fit --team research --gpus 0.5 --gpu-type A100",
    "tidemill fit --team research --gpus 4 --profile 1g.10gb",
    "tidemill fit --job job.json -j out/demo.sqlite --json",
)


def why(
    job: Annotated[str, typer.Argument(help="The name of a job.")],
    journal: options.Journal = options.DEFAULT_JOURNAL,
    at: options.At = None,
    nodes: Annotated[
        bool, typer.Option("--nodes", help="Also show why each node does or does not fit.")
    ] = False,
    eta: Annotated[
        bool, typer.Option("--eta", help="Also say when it should start (takes longer).")
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Why does this job wait? Four questions, the cause, its owner, the fix and its price."""
    import msgspec

    from tidemill import explain
    from tidemill.cli import device_evidence
    from tidemill.cli.moment import (
        held_jobs,
        note_decider,
        note_unlisted,
        one_question,
        sides_of,
        world_at,
    )
    from tidemill.explain import commands, phrasing

    world, policy = world_at(journal, at, notes_decider=False, notes_unlisted=False)
    every = held_jobs(journal, at)
    sharers = [one.pod for one in world.claim_sharers]
    job = full(world, job, [*(one.name for one in every), *sharers])
    job, shares = _of_claim(world, job)
    if (held := held_job(world, job, every)) is not None:
        _print_held(held, world, journal, at, as_json=as_json)
        return
    j = job_number(world, job, journal, at, names_of(every))
    note_decider(world, [phrasing.own_reason(world, j) or j in world.placements])
    with one_question(world) as memo:
        found = _if_stopped(explain.why(world, policy, j, memo), world, j, journal, at)
    answer = _with_order(commands.located(found, journal, at), world.job_names[j], journal, at)
    note_unlisted(world, " ".join(fact.words for fact in answer.evidence))
    forecast = None
    if eta:
        told = explain.eta(world, policy, j, sides_of(journal, world, policy))
        forecast = commands.forecast_located(told, journal, at)
    verdicts = explain.verdicts(world, j) if nodes else None
    placed = _placed(world, policy, j, journal, at)
    errors = device_evidence.of_job(journal, world, j)
    if as_json:
        found_all = {
            "answer": answer, "forecast": forecast, "nodes": verdicts,
            "decision": None if placed is None else placed.decision,
            "device_errors": [one._asdict() for one in errors],
        } | ({"shares_claim": shares} if shares else {})  # fmt: skip
        screen.json_out(msgspec.json.encode(found_all), journal, at=at)
        return
    if shares:
        screen.out().print(shares, markup=False, soft_wrap=True)
    _print_answer(answer, world)
    for line in device_evidence.lines(errors, world.now_ms):
        screen.out().print(line, markup=False, soft_wrap=True)
    if placed is not None:
        screen.out().print(placed.words, markup=False, soft_wrap=True)
    if forecast is not None:
        screen.out().print(forecast.words, markup=False, soft_wrap=True)
        _print_method(forecast)
    if verdicts is not None:
        made = screen.table("node", "GPU type", "state", "free", "verdict", right_from=9)
        for v in verdicts:
            made.add_row(v.node, v.kind, v.state, milli_text(v.free_milli), v.words)
        screen.out().print(made)


def _of_claim(world: "World", job: str) -> tuple[str, str]:
    """The job to ask about: of a pod that shares its claim, that one, and this in words; else as
    it was asked, and "".
    """
    from tidemill.explain import claim_sharers

    shares = None if job in world.job_number else claim_sharers.of(world, job)
    return (job, "") if shares is None else (shares.job, claim_sharers.words(world, shares))


def _print_held(
    held: "UnplacedJob", world: "World", journal: str, at: str | None, *, as_json: bool
) -> None:
    """A job that is in no queue: what keeps it, in the words that its pods have too."""
    import msgspec

    from tidemill.explain import commands, held_jobs

    answer = commands.located(held_jobs.answer(held, world.now_ms), journal, at)
    answer = _with_order(answer, held.name, journal, at)
    if as_json:
        told = {"answer": answer, "forecast": None, "nodes": None, "decision": None}
        screen.json_out(msgspec.json.encode(told), journal)
    else:
        _print_answer(answer, world)


def _with_order(answer: "Answer", job: str, journal: str, at: str | None) -> "Answer":
    """The answer with what autoscalers say of the node that its pods ordered, if they do."""
    from msgspec.structs import replace

    from tidemill.cli.moment import ordered_nodes

    said = ordered_nodes(journal, at).get(job, "") if answer.state == "waiting" else ""
    return replace(answer, words=f"{answer.words}\nordered: {said}") if said else answer


def _if_stopped(
    answer: "Answer", world: "World", j: int, journal: str, at: str | None
) -> "Answer":  # fmt: skip
    """The answer; of a job that has no pods any more, what became of it; or why it failed."""
    from msgspec.structs import replace

    from tidemill import api
    from tidemill.explain.decision import stopped

    if answer.state not in ("cancelled", "failed"):
        return answer
    with api.open_journal(journal) as opened:
        at_ms = None if at is None else api.Calendar.of(opened.facts()).ms(at, "--at")
        became = stopped.stopped(opened, world, j, at_ms)
        failed = stopped.why_failed(opened, world, j, at_ms)
    if failed:
        return replace(answer, words=f"{answer.words}: {failed}")
    return answer if became is None else replace(answer, words=became.words, detail=became.detail)


class Placed(NamedTuple):
    """The decision by which a running job got its place, and that in words."""

    decision: "Decision"
    words: str


def _placed(
    world: "World", policy: "Policy", j: int, journal: str, at: str | None
) -> Placed | None:
    """When and why a running job got its place; None: it holds none."""
    if j not in world.placements:
        return None
    from tidemill import api
    from tidemill.cli.moment import one_question
    from tidemill.explain.decision import reading

    with api.open_journal(journal) as opened, one_question(world):
        calendar = api.Calendar.of(opened.facts())
        at_ms = None if at is None else calendar.ms(at, "--at")
        found = reading.read(opened, world, policy, j, at_ms)
    if found.outcome != "placed":
        return Placed(found, f"its place: {found.unknown}")
    why = "; ".join(row.words for row in found.scores) or found.unknown
    when = f"{calendar.text(found.at_ms)}, {found.watch.words.partition(';')[0]}"
    more = located(f"stage by stage: `tidemill decision {shlex.quote(found.job)}`", journal, at)
    return Placed(found, f"placed {when}: {why}\n{more}")


def fit(
    journal: options.Journal = options.DEFAULT_JOURNAL,
    job: Annotated[
        Path | None, typer.Option("--job", help="A job row in JSON, instead of the options.")
    ] = None,
    team: Annotated[str, typer.Option("--team", help="The job's team.")] = "",
    gpus: Annotated[
        str, typer.Option("--gpus", help="GPUs requested in all; or a part of one, such as 0.5.")
    ] = "1",
    per_node: Annotated[
        int, typer.Option("--per-node", min=0, help="GPUs of one replica (all on one node).")
    ] = 0,
    kind: Annotated[
        list[str] | None,
        typer.Option("--gpu-type", "--kind", help="GPU types that it may run on."),
    ] = None,
    cpus: Annotated[
        float | None, typer.Option("--cpus", min=0, help="CPU cores per replica.")
    ] = None,
    memory_gib: Annotated[
        float | None, typer.Option("--memory-gib", min=0, help="Host memory per replica.")
    ] = None,
    priority: Annotated[int, typer.Option("--priority", help="Higher goes first.")] = 0,
    hours: Annotated[float, typer.Option("--hours", min=0, help="Estimated run time.")] = 0,
    within: Annotated[
        str,
        typer.Option(
            "--within", help="Required topology: the whole job in one domain of this tier."
        ),
    ] = "",
    near: Annotated[str, typer.Option("--near", help="The same, preferred.")] = "",
    profile: Annotated[
        str, typer.Option("--profile", help="--gpus MIG instances of this profile instead.")
    ] = "",
    partition: Annotated[
        str, typer.Option("--partition", help="The Slurm partition; else any of them.")
    ] = "",
    tolerate: Annotated[
        list[str] | None,
        typer.Option("--tolerate", help="The key of a taint that it tolerates; may be repeated."),
    ] = None,
    cluster: Annotated[
        str,
        typer.Option("--cluster", help="Of several clusters, this; else where it starts first."),
    ] = "",
    at: options.At = None,
    as_json: options.Json = False,
) -> None:
    """Before submitting: runs now, waits about so long because …, or never fits because …"""
    import msgspec
    from msgspec.structs import replace

    from tidemill import explain
    from tidemill.cli import foreign_request, job_option, tolerations
    from tidemill.cli.moment import note_unlisted, sides_of, world_at
    from tidemill.explain import commands, typical_host
    from tidemill.journal import cluster_kinds

    assumed, layout = tuple[str, ...](), ""
    world, policy = world_at(  # the answer says both
        journal, at, notes_decider=False, notes_unlisted=False
    )
    is_cut = cluster_kinds.of_all(world, cluster) == cluster_kinds.KUBERNETES
    usual = tolerations.of_resources(world) if job is None else tolerations.NOTHING
    if job is not None:
        row = job_option.from_file(job)
        if is_cut:
            job_option.refuse_parts(world, row)
        world, is_new = foreign_request.with_team(world, row.shape.team, cluster)
    else:
        world, is_new = foreign_request.with_team(world, team, cluster)
        row = job_option.from_options(
            world, team=team, gpus=gpus, per_node=per_node, kinds=tuple(kind or ()),
            cpus=cpus, memory_gib=memory_gib, priority=priority, hours=hours, within=within,
            near=near, profile=profile, partition=partition, is_cut=is_cut,
            tolerates=(*usual.pairs, *tolerations.asked(world, tuple(tolerate or ()))),
        )  # fmt: skip
        layout = "" if per_node or profile else foreign_request.layout(world, row, gpus)
        row, assumed = typical_host.filled(
            world, row, is_cpu=cpus is None, is_memory=memory_gib is None
        )
    _refuse_known(world, row, journal)
    _refuse_unknown_cluster(world, cluster)
    told = explain.fit(world, policy, row, sides_of(journal, world, policy), cluster)

    def holds(offer: "Alternative") -> bool:
        asked, _ = typical_host.filled(
            world, replace(row, shape=offer.shape), is_cpu=cpus is None,
            is_memory=memory_gib is None,
        )  # fmt: skip
        is_same = asked.shape == offer.shape or offer.change in _SAYS_HOST
        return is_same or explain.fit(world, policy, asked, cluster=cluster).verdict == "now"

    if job is None:
        told = _with_offers_that(holds, told)
    assumptions = (*told.assumptions, *is_new, *assumed, *usual.assumed)
    told = replace(told, words=f"{layout}{told.words}", assumptions=assumptions)
    forecast = commands.forecast_located(told, journal, at)
    note_unlisted(world, forecast.words)
    if as_json:
        screen.json_out(msgspec.json.encode(forecast), journal, at=at)
    else:
        _print_forecast(forecast)


_SAYS_HOST = ("split", "fewer cores", "less memory", "less CPU and memory")
"""Offers that say how many cores and how much memory to request; who asks about another gets those
that jobs of that size have.
"""


def _with_offers_that(holds: Callable[["Alternative"], bool], told: "Forecast") -> "Forecast":
    """Without offers that would not run now when they are asked about with the same options."""
    from msgspec.structs import replace

    proof = told.certificate
    if proof is None or not proof.fits_now:
        return told
    return replace(told, certificate=replace(proof, fits_now=tuple(filter(holds, proof.fits_now))))


def _refuse_known(world: "World", row: "Job", journal: str) -> None:
    if row.name in world.job_number:
        raise SpecError(
            f"a job called `{row.name}` exists already",
            hint=located(f"ask `tidemill why {shlex.quote(row.name)}`", journal)
            + ", or give the new one another name",
        )


def _refuse_unknown_cluster(world: "World", cluster: str) -> None:
    from tidemill.explain import supply

    known = supply.clusters(world)
    if cluster and cluster not in known:
        raise SpecError(
            f"no cluster is called `{cluster}`",
            hint=f"clusters: {', '.join(known)}" if known else "there is one; leave --cluster out",
        )


def _print_answer(answer: "Answer", world: "World") -> None:
    console = screen.out()
    console.print(answer.words, markup=False, soft_wrap=True)
    for question in answer.questions:
        console.print(f"  {question.answer:>3}  {question.question}", markup=False)
        console.print(f"       {question.words}", markup=False, style="dim", soft_wrap=True)
    _print_nearest(answer.certificate, "       ")
    _print_commands(answer, world)


def _print_commands(answer: "Answer", world: "World") -> None:
    """What shows it: first our own commands, then those of the kind of cluster that the job is in;
    of several clusters they are for one, and that is said.
    """
    from tidemill.journal import cluster_kinds

    of_job = cluster_kinds.of_job(world, answer.job)
    theirs = f"in cluster `{of_job.cluster}`:" if of_job.cluster else ""
    shown = [command for fact in answer.evidence for command in fact.shown_by]
    for head, on in (("commands that show it:", "tidemill"), (theirs, of_job.kind)):
        lines = dict.fromkeys(command.line for command in shown if command.on == on)
        for line in ([head] if lines and head else []) + [f"  {line}" for line in lines]:
            screen.out().print(line, markup=False, style="dim", soft_wrap=True)


def _print_nearest(proof: "Certificate | None", indent: str = "") -> None:
    """What would run now instead."""
    if proof is not None and proof.fits_now:
        only = " (once this job is cancelled)"
        near = "; ".join(made.words + only * made.needs_cancel for made in proof.fits_now)
        screen.out().print(f"{indent}would run now instead: {near}", soft_wrap=True)


def _print_forecast(forecast: "Forecast") -> None:
    console = screen.out()
    console.print(forecast.words, markup=False, soft_wrap=True)
    _print_nearest(forecast.certificate)
    _print_method(forecast)


def _print_method(forecast: "Forecast") -> None:
    """How the start was found, and what was assumed."""
    console = screen.out()
    console.print(f"method: {forecast.method}", markup=False, style="dim", soft_wrap=True)
    for text in forecast.assumptions:
        console.print(f"assumed: {text}", markup=False, style="dim", soft_wrap=True)
