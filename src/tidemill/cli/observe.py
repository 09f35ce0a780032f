"""``tidemill observe``: the books of a running cluster, as it runs. Read-only."""

import time
from pathlib import Path
from typing import Annotated

import typer

from tidemill.cli import given, imports, observers, options
from tidemill.model.errors import SpecError
from tidemill.model.measures import FOREVER_MS

app = typer.Typer(
    help="Watch a running cluster and keep its books: what happens, not a simulation.\n\n"
    "Without a command: all sources that a fleet.toml names, on one journal, until stopped.",
    epilog=options.example(
        "tidemill observe slurm --usd-per-hour 2.50 -j fleet.sqlite",
        "tidemill observe kubernetes --usd-per-hour 2.50 -j fleet.sqlite",
        "tidemill observe --config fleet.toml --check",
        "tidemill observe --config fleet.toml",
        "tidemill ledger fleet.sqlite --by team",
    ),
    invoke_without_command=True,
)
Once = Annotated[bool, typer.Option("--once", help="Ask once, and stop.")]


@app.callback()
def observe(
    context: typer.Context,
    config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            help="A file that names clusters, who measures, prices and teams (default: fleet.toml"
            " here).",
            metavar="FILE",
        ),
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Ask every source once, say what answers, and stop.")
    ] = False,
    once: Once = False,
    as_json: options.Json = False,
) -> None:
    """Watch a running cluster and keep its books: what happens, not a simulation.

    Without a command: all sources that a fleet.toml names, on one journal, until stopped.
    """
    if context.invoked_subcommand is not None:
        if config is not None or check or once or as_json:
            raise SpecError(
                f"options before `{context.invoked_subcommand}` are for a fleet.toml, which names"
                " all that is watched",
                hint=f"write them after `{context.invoked_subcommand}`, or leave that out",
            )
        return
    from tidemill.cli import fleet_file, fleet_watch

    found = fleet_file.load(fleet_file.find(config))
    with fleet_file.by_its_keys(found.path):
        if check:
            fleet_watch.check(found, as_json=as_json)
        else:
            fleet_watch.watch(found, once=once, as_json=as_json)


SLURM_EXAMPLES = options.example(
    "tidemill observe slurm --usd-per-hour 2.50 -j fleet.sqlite",
    "tidemill observe slurm --usd-per-hour H100=2.80,A100=1.60 --every 1m --since 2026-11-01",
    "tidemill observe slurm --usd-per-hour 2.50 --once",
)

Every = Annotated[
    str, typer.Option("--every", help="How often the cluster is asked.", metavar="TIME")
]
Lateness = Annotated[
    str,
    typer.Option(
        "--lateness",
        help="The journal stays so far behind, so that what comes late is still in time.",
        metavar="TIME",
    ),
]
Gap = Annotated[
    str,
    typer.Option(
        "--gap",
        help="A longer time without an answer was not observed: free GPUs in it are unknown.",
        metavar="TIME",
    ),
]
Keep = Annotated[
    str,
    typer.Option(
        "--keep",
        help="Roll up what is older into books by the hour, once a day, such as 90d (default: all"
        " events are kept).",
        metavar="TIME",
    ),
]
Since = Annotated[
    str | None,
    typer.Option(
        "--since",
        help="Begin a new journal at this date, from Slurm's own records (default: now).",
        metavar="DATE",
    ),
]


@app.command("slurm", epilog=SLURM_EXAMPLES)
@options.takes_variable
@options.takes_groups
def slurm(
    journal: options.Target = options.DEFAULT_JOURNAL,
    said: given.Given = given.NOTHING,
    beside: observers.Beside = observers.NOBODY,
    every: Every = "30s",
    lateness: Lateness = "1m",
    gap: Gap = "10m",
    keep: Keep = "",
    since: Since = None,
    zone: imports.Zone = "UTC",
    timeout: Annotated[
        str, typer.Option("--timeout", help="The longest wait for one command.", metavar="TIME")
    ] = "1m",
    once: Once = False,
    as_json: options.Json = False,
) -> None:
    """Watch a Slurm cluster with sacct, squeue, scontrol and sacctmgr until stopped.

    Started again with the same journal it goes on where that stops, whatever stopped it: no event
    is lost and none is told twice. Other commands read the journal meanwhile.
    """
    from tidemill.live.observing.observer import ObserverTerms
    from tidemill.live.slurm.polling import SlurmSource

    shown = imports.checked_zone(zone)
    begins_ms, now_ms = imports.moment_ms(since, shown, "--since"), round(time.time() * 1000)
    rule = said.price_rule(shown, (now_ms if begins_ms is None else begins_ms, FOREVER_MS))
    late_ms, gap_ms = observers.lengths(lateness, gap)
    terms = ObserverTerms(rule, late_ms, gap_ms, shown, said.assumptions(), said.intent(shown),
                          said.unheard)  # fmt: skip
    source = SlurmSource(timeout_s=observers.span_ms(timeout, "--timeout") / 1000)
    observers.run(
        source, journal, terms, beside, begins_ms,
        observers.AskingPace(every, once, as_json, keep),
    )  # fmt: skip


KUBERNETES_EXAMPLES = options.example(
    "tidemill observe kubernetes --usd-per-hour 2.50 -j fleet.sqlite",
    "tidemill observe kubernetes --context prod --list-prices --team-by label:team",
    "tidemill observe kubernetes --kubeconfig observer.yaml --once --lateness 0s",
)


@app.command("kubernetes", epilog=KUBERNETES_EXAMPLES)
@options.takes_variable
@options.takes_groups
def kubernetes(
    journal: options.Target = options.DEFAULT_JOURNAL,
    said: given.Given = given.NOTHING,
    beside: observers.Beside = observers.NOBODY,
    kubeconfig: observers.Kubeconfig = None,
    context: observers.Context = None,
    team_by: imports.TeamBy = "namespace",
    autoscaler_namespace: observers.AutoscalerNamespace = "",
    every: Every = "30s",
    lateness: Lateness = "1m",
    gap: Gap = "10m",
    keep: Keep = "",
    zone: imports.Zone = "UTC",
    timeout: Annotated[
        str, typer.Option("--timeout", help="The longest wait for one answer.", metavar="TIME")
    ] = "30s",
    once: Once = False,
    as_json: options.Json = False,
) -> None:
    """Watch a Kubernetes cluster until stopped. Only reads: get, list and watch.

    Started again with the same journal it goes on where that stops, whatever stopped it: no event
    is lost and none is told twice. Other commands read the journal meanwhile.
    """
    from tidemill.live.kubernetes.api import kubeconfig as kubeconfigs
    from tidemill.live.kubernetes.watching.source import KubernetesSource
    from tidemill.live.observing.observer import ObserverTerms

    shown, now_ms = imports.checked_zone(zone), round(time.time() * 1000)
    rule = said.price_rule(shown, (now_ms, FOREVER_MS))
    late_ms, gap_ms = observers.lengths(lateness, gap)
    terms = ObserverTerms(rule, late_ms, gap_ms, shown, said.assumptions(), said.intent(shown),
                          said.unheard)  # fmt: skip
    access, wait_s = kubeconfigs.find(kubeconfig, context), observers.span_ms(timeout, "--timeout")
    with KubernetesSource(
        access, team_by=team_by, timeout_s=wait_s / 1000, autoscaler_namespace=autoscaler_namespace
    ) as source:
        observers.run(
            source, journal, terms, beside, None,
            observers.AskingPace(every, once, as_json, keep),
        )  # fmt: skip
