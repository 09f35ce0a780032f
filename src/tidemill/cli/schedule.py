"""``tidemill schedule``: place the work of a running cluster, with the twin's own loop."""

import asyncio
import os
import signal
import socket
import sys
import time
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from tidemill.cli import (
    given,
    imports,
    observe,
    observers,
    options,
    policy_file,
    replay,
    shadowing,
)
from tidemill.cli.policy_file import PolicyFile
from tidemill.cli.policy_object import PolicySource
from tidemill.model.errors import (
    BackendError,
    JournalError,
    SpecError,
    TidemillError,
)
from tidemill.model.measures import FOREVER_MS

if TYPE_CHECKING:
    from tidemill.live.kubernetes.api.kubeconfig import ClusterAccess
    from tidemill.live.kubernetes.scheduling.leadership import Leadership
    from tidemill.live.kubernetes.scheduling.metrics import MetricsServer
    from tidemill.live.kubernetes.scheduling.running import (
        ClusterScheduler,
        RulesSource,
        SchedulerTerms,
    )

app = typer.Typer(
    help="Place the work of a running cluster: the scheduler of the twin, on real nodes.",
    epilog=options.example("tidemill schedule kubernetes --policy policy.toml -j fleet.sqlite"),
    no_args_is_help=True,
)
KUBERNETES_EXAMPLES = options.example(
    "tidemill schedule kubernetes -j fleet.sqlite",
    "tidemill schedule kubernetes --policy policy.toml --list-prices --check",
    "tidemill schedule kubernetes --policy policy.toml --list-prices --once",
    "tidemill schedule kubernetes --shadow --policy policy.toml --usd-per-hour 2.50 -j seen.sqlite",
    "tidemill schedule kubernetes --lease tidemill/scheduler -j postgresql://host/db?journal=prod",
)


@app.callback()
def schedule() -> None:
    """Place the work of a running cluster: the scheduler of the twin, on real nodes."""


@app.command("kubernetes", epilog=KUBERNETES_EXAMPLES)
@options.takes_variable
def kubernetes(
    journal: options.Target = options.DEFAULT_JOURNAL,
    policy: policy_file.Option = None,
    policy_object: Annotated[
        str | None,
        typer.Option(
            "--policy-object",
            help="A SchedulingPolicy of the cluster, which holds while it is there; then --policy"
            " does not (see `tidemill schedule crd`).",
            metavar="NAME",
        ),
    ] = None,
    scheduler: Annotated[
        str,
        typer.Option(
            "--scheduler-name",
            help="Pods that say so in schedulerName are placed; others are counted.",
            metavar="NAME",
        ),
    ] = "tidemill",
    team_by: imports.TeamBy = "namespace",
    usd_per_hour: given.PerHour = None,
    prices: given.PriceFiles = None,
    list_prices: given.ListPrices = False,
    kubeconfig: observers.Kubeconfig = None,
    context: observers.Context = None,
    lease: Annotated[
        str | None,
        typer.Option(
            "--lease",
            help="Of several replicas the one that holds this Lease decides (default: no other"
            " runs).",
            metavar="NAMESPACE/NAME",
        ),
    ] = None,
    metrics: Annotated[
        str | None,
        typer.Option(
            "--metrics",
            help="Serve /metrics (Prometheus), /livez and /readyz; of this machine alone unless a"
            " host is named.",
            metavar="[HOST:]PORT",
        ),
    ] = None,
    zone: imports.Zone = "UTC",
    once: Annotated[
        bool, typer.Option("--once", help="Place what can be placed now, and stop.")
    ] = False,
    may_drain: Annotated[
        bool,
        typer.Option(
            "--may-drain",
            help="Cordon nodes that are going to be taken, and evict whole gangs of ours from them"
            " before the deadline (needs deploy/kubernetes/drain.yaml).",
        ),
    ] = False,
    may_resize: Annotated[
        bool,
        typer.Option(
            "--may-resize",
            help="Ask the owners of elastic gangs for fewer or more pods, by their scale, where the"
            " policy's may_resize says so (needs deploy/kubernetes/resize.yaml).",
        ),
    ] = False,
    shadow: Annotated[
        bool,
        typer.Option(
            "--shadow",
            help="Place nothing: watch, and say what would have been done beside what was done, in"
            " dollars. Needs no more rights than to read.",
        ),
    ] = False,
    shadow_of: replay.ShadowOf = "",
    into: replay.Into = None,
    autoscaler_namespace: observers.AutoscalerNamespace = "",
    every: observe.Every = "30s",
    lateness: observe.Lateness = "1m",
    check: Annotated[
        bool,
        typer.Option(
            "--check",
            help="Place nothing: say whether rights, API, journal, policy, nodes and prices are"
            " what these options need, and end; with 1 if it could not work.",
        ),
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the report of a shadow, or of --check, as JSON.")
    ] = False,
) -> None:
    """Place the pods that name us in schedulerName, until stopped. Binds, evicts, and says why.

    Gangs start whole or not at all. Pods of other schedulers are counted and never moved. Started
    again with the same journal it goes on, whatever stopped it. Other commands read the journal
    meanwhile.

    With --shadow it binds nothing: the journal is then what the cluster did, --into what this
    policy would have done with the same pods. --shadow-of, --into, --every and --lateness are for
    that alone.
    """
    from tidemill.live.kubernetes import autoscaler
    from tidemill.live.kubernetes.api import kubeconfig as kubeconfigs
    from tidemill.live.kubernetes.scheduling.running import SchedulerTerms
    from tidemill.live.observing.observer import ObserverTerms

    shown, now_ms = imports.checked_zone(zone), round(datetime.now(UTC).timestamp() * 1000)
    rule = given.Given(usd_per_hour, prices, list_prices).price_rule(shown, (now_ms, now_ms))
    if shadow:
        writes = may_drain or may_resize or check
        if lease is not None or metrics is not None or policy_object is not None or writes:
            raise SpecError(
                "a shadow only reads: it holds no Lease, serves no metrics, drains and resizes"
                " nothing, needs no rights that --check asks about, and its policy is a file",
                hint="leave --lease, --metrics, --may-drain, --may-resize, --check and"
                " --policy-object out, or --shadow",
            )
        until = given.Given(usd_per_hour, prices, list_prices).price_rule(
            shown, (now_ms, FOREVER_MS)
        )
        rules = PolicyFile(policy)
        rules.read()  # what cannot be used is refused before anybody is asked
        shadowing.run(
            kubeconfigs.find(kubeconfig, context),
            rules,
            shadowing.ShadowTerms(
                journal, into or replay.beside(journal), shadow_of, team_by,
                autoscaler_namespace,
                ObserverTerms(until, observers.span_ms(lateness, "--lateness"), zone=shown),
                observers.AskingPace(every, once, as_json),
            ),
        )  # fmt: skip
        return
    terms = SchedulerTerms(
        journal, scheduler, team_by, rule, shown, may_drain, may_resize, lease or "",
        autoscaler.checked(autoscaler_namespace),
    )  # fmt: skip
    if lease is not None and (lease.count("/") != 1 or not all(lease.split("/"))):
        raise SpecError(f"--lease is `{lease}`", hint="such as tidemill/scheduler")
    where = observers.address(metrics, "--metrics") if metrics is not None else None
    rules = PolicyFile(policy)
    access = kubeconfigs.find(kubeconfig, context)
    if check:
        from tidemill.cli import doctor, schedule_check

        found = schedule_check.of_port(where)
        found += schedule_check.check(access, terms, rules, lease or "", policy_object or "")
        raise typer.Exit(0 if doctor.tell(found, as_json=as_json) else 1)
    rules.read()  # what cannot be used is refused before anybody is asked
    asyncio.run(_Run(access, terms, rules, lease, where, policy_object).run(is_once=once))


@app.command("crd", epilog=options.example("tidemill schedule crd | kubectl apply -f -"))
def crd() -> None:
    """Print the kind SchedulingPolicy for a cluster, with who may read it, as YAML."""
    from tidemill.cli.policy_object import definition

    for one in definition():
        typer.echo("---\n" + msgspec.yaml.encode(one).decode(), nl=False)


class _Run:
    """One run of a scheduler in the foreground."""

    def __init__(
        self,
        access: "ClusterAccess",
        terms: "SchedulerTerms",
        rules: PolicyFile,
        lease: str | None,
        metrics_at: tuple[str, int] | None,
        policy_object: str | None = None,
    ) -> None:
        self._access, self._terms, self._lease = access, terms, lease
        self._rules: RulesSource = rules
        self._watched = None
        if policy_object is not None:
            from tidemill.live.kubernetes.scheduling.policy_object import WatchedPolicy

            self._watched = WatchedPolicy(access, policy_object, log)
            self._rules = PolicySource(rules, self._watched)
        self._metrics_at = metrics_at
        self._can_plan = False
        self._made: ClusterScheduler | None = None
        self._leadership: Leadership | None = None
        self._kept_out = ""
        """Why it could not have the journal when it was to lead; "": it could, or did not yet."""
        self._stopped = asyncio.Event()

    async def run(self, *, is_once: bool) -> None:
        """Until a signal comes, or until all that fits is placed."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._stopped.set)
        serving = await self._serve()
        try:
            await self._begin_watching()
            await self._decide(is_once=is_once)
        except TidemillError as error:  # people read the words that follow, programs this line
            log("ended by an error", said=error.message, hint=error.hint)
            raise
        finally:
            if self._watched is not None:
                await self._watched.stop()
            if serving is not None:
                await serving.stop()

    async def _begin_watching(self) -> None:
        """Read the policy that is an object of the cluster, if there may be one."""
        from tidemill.live.kubernetes.api.client import (
            UNREACHABLE,
            ApiRefusal,
            refusal_hint,
            unreachable,
        )

        if self._watched is None:
            return
        try:
            await self._watched.start()
        except UNREACHABLE as error:
            raise unreachable(self._access, error) from None
        except ApiRefusal as error:
            raise BackendError(
                f"asked for the SchedulingPolicy `{self._watched.name}`; found {error}",
                hint=refusal_hint(error.status, "schedule.yaml"),
            ) from None

    async def _serve(self) -> "MetricsServer | None":
        """Numbers and probes, if they were asked for; a replica that stands by is ready too."""
        from tidemill.live.kubernetes.scheduling import metrics

        if self._metrics_at is None:
            return None
        made = metrics.MetricsServer(
            lambda: metrics.exposition(metrics.metrics(self._made, is_leader=self._is_leader)),
            self._why_not_ready,
        )
        port = await made.start(*self._metrics_at)
        log("serving metrics", host=self._metrics_at[0], port=port)
        return made

    def _why_not_ready(self) -> str:
        """Why it does not do what it is there for, in a line; "": it does, or it stands by."""
        if not self._can_plan:
            return "what decides is being compiled"
        if self._made is not None and (said := self._made.why_standing):
            return said
        if not self._is_leader:
            lease = self._leadership
            if lease is not None and lease.refused:
                return f"the Lease cannot be had: {lease.refused}"
            return "" if lease is not None and lease.has_leader() else self._kept_out
        return "it has not begun yet" if self._made is None else self._made.why_not_ready

    @property
    def _is_leader(self) -> bool:
        return not self._lease or (self._leadership is not None and self._leadership.is_sure())

    async def _decide(self, *, is_once: bool) -> None:
        """Lead, and go on until told to stop; whoever loses the Lease stands by again."""
        from tidemill.journal import exists
        from tidemill.live.kubernetes.scheduling.rehearsal import rehearse
        from tidemill.live.kubernetes.scheduling.running import live_policy

        if self._lease:  # only a server that was there is waited for: this one may be mistyped
            await asyncio.to_thread(exists, self._terms.journal)
        own = self._rules
        rules = own.begin() if isinstance(own, PolicySource) else own.read()
        policy = live_policy(rules.policy, may_resize=self._terms.may_resize)
        await asyncio.to_thread(rehearse, policy, rules.fleet)  # probes are answered meanwhile
        self._can_plan = True
        log("ready to plan", said="what decides is compiled, by plans for a made-up fleet")
        has_begun = False
        while not self._stopped.is_set():
            leadership = self._leadership = await self._lead() if self._lease else None
            if self._stopped.is_set():
                break
            try:
                is_lost = await self._decide_once(leadership, is_once=is_once)
            except (BackendError, JournalError) as error:
                if leadership is None or not self._may_pass(error, has_begun=has_begun):
                    raise
                log("stands by again", said=error.message)
                is_lost = True
                await self._hold_off(error)
            if not is_lost:
                break
            has_begun = True

    def _may_pass(self, error: TidemillError, *, has_begun: bool) -> bool:
        """Whether it helps to wait: the cluster answered once, somebody else has the journal, or
        nobody answers where that is kept, as somebody did at the start.
        """
        from tidemill.journal.faults import AwayError, OtherWriterError

        if isinstance(error, BackendError):
            return has_begun
        return isinstance(error, AwayError | OtherWriterError)

    async def _hold_off(self, error: TidemillError) -> None:
        """Leave the Lease to others while the journal cannot be had: who leads has to write it."""
        from tidemill.journal.faults import AwayError
        from tidemill.live.kubernetes.scheduling.leadership import LASTS_S

        if isinstance(error, JournalError):
            self._kept_out = error.message
            if isinstance(error, AwayError):
                await self._wait_for_server()
            else:
                await self._pause(LASTS_S)

    async def _wait_for_server(self) -> None:
        """Until the server of the journal answers; refused when that takes too long."""
        from tidemill.journal import exists
        from tidemill.journal.faults import AwayError

        end = time.monotonic() + JOURNAL_PATIENCE_S
        while not self._stopped.is_set():
            await self._pause(JOURNAL_LOOK_S)
            try:
                await asyncio.to_thread(exists, self._terms.journal)
            except AwayError:
                if time.monotonic() > end:
                    raise
            else:
                return

    async def _pause(self, longest_s: float) -> None:
        """So long, or until told to stop."""
        with suppress(TimeoutError):
            async with asyncio.timeout(longest_s):
                await self._stopped.wait()

    async def _decide_once(self, leadership: "Leadership | None", *, is_once: bool) -> bool:
        """Decide as long as this replica leads; whether it does so no more."""
        from tidemill.explain import said
        from tidemill.live.kubernetes.scheduling.running import ClusterScheduler

        may_write = leadership.is_sure if leadership is not None else lambda: True
        made = ClusterScheduler(self._access, self._terms, self._rules, log, said, may_write)
        self._made = made
        keeping = asyncio.create_task(leadership.keep()) if leadership is not None else None
        try:
            await self._begin_and_go_on(made, keeping, is_once=is_once)
            is_lost = keeping is not None and keeping.done() and not self._stopped.is_set()
            await made.stop()
        finally:
            self._made = None
            if keeping is not None:
                keeping.cancel()
            if leadership is not None:
                await leadership.give_up()
        counts = msgspec.structs.asdict(made.sender.counts)
        if is_lost:
            said_so = "it could not be renewed in time"
            log("lost the Lease", lease=self._lease, said=said_so, **counts)
        else:
            log("stopped", **counts)
        return is_lost

    async def _begin_and_go_on(
        self, made: "ClusterScheduler", keeping: "asyncio.Task[None] | None", *, is_once: bool
    ) -> None:
        try:
            await made.begin()
            log("began", journal=self._terms.journal, jobs=made.world.job_count)
            self._kept_out = ""
            await self._go_on(made, keeping, is_once=is_once)
        except BaseException:
            with suppress(JournalError):  # what happened first is told
                await made.stop()
            raise

    async def _go_on(
        self, made: "ClusterScheduler", keeping: "asyncio.Task[None] | None", *, is_once: bool
    ) -> None:
        quiet = 0

        def is_over() -> bool:
            nonlocal quiet
            quiet = quiet + 1 if made.is_settled else 0
            is_lost = keeping is not None and keeping.done()
            return self._stopped.is_set() or is_lost or (is_once and quiet > QUIET_LOOKS)

        await made.run(is_over, 0.05 if is_once else 1.0)

    async def _lead(self) -> "Leadership":
        from tidemill.live.kubernetes.api.writing import ApiWriter
        from tidemill.live.kubernetes.scheduling.leadership import ASK_S, Leadership

        assert self._lease is not None, "asked for with a Lease alone"
        if self._leadership is None:  # afterwards the same: it knows that it was allowed once
            writer = ApiWriter(self._access, connections=2, timeout_s=ASK_S)
            namespace, _, name = self._lease.partition("/")
            holder = f"{socket.gethostname()}-{os.getpid()}"
            self._leadership = Leadership(writer, namespace, name, holder, log)
        found = self._leadership

        def stand_by(other: str) -> None:
            log("standing by", lease=self._lease, holder=other or None, replica=found.holder)

        taking = asyncio.create_task(found.take(stand_by))
        stopped = asyncio.create_task(self._stopped.wait())
        await asyncio.wait((taking, stopped), return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        if taking.done():
            taking.result()
            log("leading", lease=self._lease)
        else:
            taking.cancel()
            with suppress(asyncio.CancelledError):
                await taking
        return found


JOURNAL_PATIENCE_S, JOURNAL_LOOK_S = 60.0, 1.0
"""How long a replica that is to lead waits for the server of its journal, as long as one that leads
does, and how often it asks."""
QUIET_LOOKS = 6
"""So many looks without anything to do end a run that was asked for once."""


def log(event: str, **told: object) -> None:
    """One line of JSON on stderr; nobody gives it secrets."""
    at = datetime.now(UTC).isoformat(timespec="milliseconds")
    line = msgspec.json.encode({"at": at, "event": event, **told}).decode()
    print(line, file=sys.stderr, flush=True)
