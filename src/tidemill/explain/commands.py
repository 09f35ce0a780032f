"""Commands: read-only lines that show a number at its source.

Each topic has one for Tidemill itself and, where they have a natural equal, one for Kubernetes and
one for Slurm; those are marked by what they speak to, and are for people who run such a cluster.
"""

import shlex

from tidemill.explain.answers import Command

Commands = tuple[Command, ...]


def contracts() -> Commands:
    """What is claimed and what it costs; no cluster knows this."""
    return (_tidemill("ledger --by contract"),)


def nodes(job: str) -> Commands:
    """Which nodes there are, their state and what is free on them."""
    return (
        _tidemill(f"why {shlex.quote(job)} --nodes"),
        Command("kubernetes", "kubectl describe nodes"),
        Command("slurm", "sinfo -N -O NodeHost,StateLong,Gres,GresUsed,CPUsState,FreeMem"),
    )


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
        _tidemill("ledger --by job"),
        Command("kubernetes", "kubectl get pods -A --field-selector status.phase=Running"),
        Command("slurm", "squeue --states=RUNNING"),
    )


def team(name: str) -> Commands:
    """What a team uses and what it may use."""
    return (
        _tidemill("ledger --by team"),
        Command("kubernetes", f"kubectl describe resourcequota -n {shlex.quote(name)}"),
        Command("slurm", f"sacctmgr show assoc account={shlex.quote(name)} format=Account,GrpTRES"),
    )


def job(name: str) -> Commands:
    """What the job asks for."""
    quoted = shlex.quote(name)
    return (
        _tidemill(f"why {quoted}"),
        Command("kubernetes", f"kubectl describe pod {quoted}"),
        Command("slurm", f"scontrol show job {quoted}"),
    )


def _tidemill(arguments: str) -> Command:
    return Command("tidemill", f"tidemill {arguments}")
