"""Commands: read-only lines that show a number at its source.

Each topic has one for Tidemill itself and, where they have a natural equal, one for Kubernetes and
one for Slurm; those are marked by what they speak to, and are for people who run such a cluster.
Tidemill's own all take ``--journal`` and ``--at``; ``located`` writes them in.
"""

import shlex

from msgspec.structs import replace

from tidemill.explain.answers import Answer, Command, Fact, Forecast
from tidemill.model.rows import Queue
from tidemill.model.world import World

Commands = tuple[Command, ...]


def forecast_located(forecast: Forecast, journal: str, at: str | None) -> Forecast:
    """The same forecast, the commands of its answer with the journal and the moment."""
    answer = forecast.answer
    return forecast if answer is None else replace(forecast, answer=located(answer, journal, at))


def located(answer: Answer, journal: str, at: str | None) -> Answer:
    """The same answer, its commands with the journal and the moment that it is about."""
    where = f" -j {shlex.quote(journal)}" + (f" --at {shlex.quote(at)}" if at else "")
    questions = tuple(
        replace(question, evidence=_located(question.evidence, where))
        for question in answer.questions
    )
    return replace(answer, questions=questions, evidence=_located(answer.evidence, where))


def _located(facts: tuple[Fact, ...], where: str) -> tuple[Fact, ...]:
    return tuple(
        replace(fact, shown_by=tuple(
            replace(command, line=command.line + where) if command.on == "tidemill" else command
            for command in fact.shown_by
        ))
        for fact in facts
    )  # fmt: skip


def contracts() -> Commands:
    """What is claimed and what it costs; no cluster knows this."""
    return (_tidemill("fleet"),)


def nodes(job: str | None) -> Commands:
    """Which nodes there are, their state and what is free on them; ``job``: one in the queue."""
    return (
        _tidemill("fleet --nodes" if job is None else f"why {shlex.quote(job)} --nodes"),
        Command("kubernetes", "kubectl describe nodes"),
        Command("slurm", "sinfo -N -O NodeHost,StateLong,Gres,GresUsed,CPUsState,FreeMem"),
    )


def budgets() -> Commands:
    """Which disruption budgets there are, and how many pods each lets go."""
    return (_tidemill("fleet --nodes"), Command("kubernetes", "kubectl get pdb --all-namespaces"))


def labels() -> Commands:
    """Which labels nodes carry."""
    return (
        Command("kubernetes", "kubectl get nodes --show-labels"),
        Command("slurm", "sinfo -N -O NodeHost,Features"),
    )


def line() -> Commands:
    """Who waits, in order."""
    return (
        _tidemill("pending"),
        Command("kubernetes", "kubectl get pods -A --field-selector status.phase=Pending"),
        Command("slurm", "squeue --states=PENDING --sort=-p"),
    )


def running() -> Commands:
    """What runs."""
    return (
        _tidemill("fleet --nodes"),
        Command("kubernetes", "kubectl get pods -A --field-selector status.phase=Running"),
        Command("slurm", "squeue --states=RUNNING"),
    )


def team(world: World, name: str) -> Commands:
    """What a team uses and what it may use."""
    return (
        _tidemill("fleet --teams"),
        *_quota_of_kubernetes(world, name),
        Command("slurm", f"sacctmgr show assoc account={shlex.quote(name)} format=Account,GrpTRES"),
    )


def _quota_of_kubernetes(world: World, name: str) -> Commands:
    """Whose quota a team has on such a cluster: of its namespace, or of its ClusterQueue.

    Those guarantee something, or are below a cohort. Quotas of a scheduler of ours are in its
    policy, which the cluster does not know.
    """
    if world.scheduler:
        return ()
    q = world.queue_number.get(name)
    row = world.queue_rows[q] if q is not None else Queue(name)
    is_queue = bool(row.parent) or any(share.floor_milli for share in row.shares)
    if world.is_observed and is_queue:
        shown = f"kubectl describe clusterqueues.kueue.x-k8s.io {shlex.quote(name)}"
        return (Command("kubernetes", shown),)
    return (Command("kubernetes", f"kubectl describe resourcequota -n {shlex.quote(name)}"),)


def held(name: str) -> Commands:
    """What a scheduler of ours said of the pods of a job that it holds."""
    namespace, slash, _ = name.partition("/")
    of = f" -n {shlex.quote(namespace)}" if slash else ""
    said = f"kubectl get events{of} --field-selector reason=FailedScheduling"
    return (_tidemill(f"why {shlex.quote(name)}"), Command("kubernetes", said))


def job(name: str | None) -> Commands:
    """What a job in the queue requests; of one that is not submitted, whoever asks has said it."""
    if name is None:
        return ()
    quoted = shlex.quote(name)
    namespace, slash, _ = name.partition("/")
    pods = f"kubectl describe pod {quoted}"
    if slash:  # as histories of Kubernetes name jobs, which are more than one pod
        pods = f"kubectl get pods -o wide -n {shlex.quote(namespace)}"
    return (
        _tidemill(f"why {quoted}"),
        Command("kubernetes", pods),
        Command("slurm", f"scontrol show job {quoted}"),
    )


def _tidemill(arguments: str) -> Command:
    return Command("tidemill", f"tidemill {arguments}")
