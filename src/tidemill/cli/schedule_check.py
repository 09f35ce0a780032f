"""What a scheduler needs before it binds anything: looked at, one by one, and changed nowhere."""

import asyncio
from collections import Counter
from typing import TYPE_CHECKING

import msgspec

from tidemill.cli import screen
from tidemill.cli.examination import Finding
from tidemill.cli.policy_file import PolicyFile
from tidemill.cli.policy_object import PolicySource
from tidemill.explain import said
from tidemill.journal import MEMORY, address, exists, open_journal
from tidemill.journal.replay import rebuild
from tidemill.journal.trying import refuse_unless_writable
from tidemill.live.kubernetes.api.client import UNREACHABLE, ApiRefusal, unreachable
from tidemill.live.kubernetes.api.writing import ApiWriter
from tidemill.live.kubernetes.scheduling import (
    keeping,
    remarks,
    rights,
    unknown_types,
)
from tidemill.live.kubernetes.scheduling.differ import Differ, FleetRules
from tidemill.live.kubernetes.scheduling.metrics import MetricsServer
from tidemill.live.kubernetes.scheduling.policy_object import WatchedPolicy
from tidemill.live.kubernetes.scheduling.refused_rules import refuse_unless_folds
from tidemill.live.kubernetes.scheduling.rights import Right, RightsAsked
from tidemill.live.kubernetes.scheduling.running import (
    MOST_NAMED,
    NO_PRICE,
    ClusterScheduler,
    RulesSource,
    SchedulerRules,
    SchedulerTerms,
    begun_ms,
    refuse_other_cluster,
)
from tidemill.live.kubernetes.watching.kind_copy import WatchState
from tidemill.live.kubernetes.watching.source import identity
from tidemill.model.errors import TidemillError
from tidemill.model.states import NodeState
from tidemill.model.world import World

if TYPE_CHECKING:
    from tidemill.live.kubernetes.api.kubeconfig import ClusterAccess


def check(
    access: "ClusterAccess", terms: SchedulerTerms, file: PolicyFile, lease: str, policy_object: str
) -> list[Finding]:
    """All that was found, whatever of it is wrong."""
    return asyncio.run(_Check(access, terms, file, lease, policy_object).run())


def of_port(where: tuple[str, int] | None) -> list[Finding]:
    """Whether metrics can be served where they were asked for, by doing so for a moment."""
    if where is None:
        return []
    try:
        asyncio.run(_listen(*where))
    except TidemillError as error:
        return [Finding(False, "metrics", error.message, error.hint, is_fatal=True)]
    return [Finding(True, "metrics", f"{where[0]}:{where[1]} can be listened on")]


async def _listen(host: str, port: int) -> None:
    server = MetricsServer(str, str)
    await server.start(host, port)
    await server.stop()


LEASE = "tidemill/scheduler"
"""The Lease that deploy/kubernetes/schedule.yaml is about."""


class _Check:
    """One look at everything that a scheduler with these terms would use."""

    def __init__(
        self, access: "ClusterAccess", terms: SchedulerTerms, file: PolicyFile, lease: str,
        policy_object: str,
    ) -> None:  # fmt: skip
        self._access, self._terms, self._lease = access, terms, lease
        self._watched = WatchedPolicy(access, policy_object, _quiet) if policy_object else None
        self._rules: RulesSource = PolicySource(file, self._watched) if self._watched else file
        self._scheduler = ClusterScheduler(access, terms, self._rules, _quiet, said)
        self.found: list[Finding] = []

    async def run(self) -> list[Finding]:
        try:
            await self._look()
        except TidemillError as error:
            self._refuse("cluster", error)
        finally:
            await self._scheduler.stop()
            if self._watched is not None:
                await self._watched.stop()
        return self.found

    async def _look(self) -> None:
        scheduler = self._scheduler
        if self._watched is not None:
            await self._read_object(self._watched)
        rules = self._read_policy()
        seen = await scheduler.look_on(rules.fleet if rules is not None else FleetRules())
        version = msgspec.json.decode(await scheduler.client.get("/version"))
        self._good("API server", f"{self._access.named}, Kubernetes {version['gitVersion']}")
        self._read()
        await self._ask_rights()
        known = self._journal(await identity(scheduler.client))
        if rules is not None:
            self._policy(rules, seen, known)
        self._nodes(seen)
        self._jobs(seen)

    async def _read_object(self, watched: WatchedPolicy) -> None:
        """Without the kind, or without the object, the file holds."""
        try:
            await watched.start()
        except UNREACHABLE as error:
            raise unreachable(self._access, error) from None
        except ApiRefusal:
            return  # which right lacks is told with the others
        if watched.found is None:
            so = "the policy file holds until there is one (`tidemill schedule crd`)"
            self.found.append(Finding(False, "policy object", f"no `{watched.name}`", so))

    def _read(self) -> None:
        """What may not be read is not known; pods and nodes have to be, and are by now."""
        copies = self._scheduler.copy.copies
        kept = [kind.shown for kind, one in copies.items() if one.state is WatchState.WATCHING]
        self._good("reading", f"{len(kept)} resources: {', '.join(sorted(kept))}")
        for kind, one in copies.items():
            if one.state is not WatchState.WATCHING:
                so = f"{kind.lost}; apply deploy/kubernetes/{kind.manifest}: {kind.rule}"
                self.found.append(Finding(False, kind.shown, one.said or str(one.state), so))

    async def _ask_rights(self) -> None:
        asked = RightsAsked(self._lease, self._terms.may_drain, self._terms.may_resize,
                            self._watched is not None)  # fmt: skip
        groups = {kind.group for kind in self._scheduler.copy.copies}
        wanted = rights.needed(asked, groups)
        writer = ApiWriter(self._access, connections=1)
        try:
            lacking = await rights.lacking(writer, wanted)
        except UNREACHABLE as error:
            raise unreachable(self._access, error) from None
        finally:
            await writer.close()
        if not lacking:
            self._good("rights", f"all {len(wanted)} that it needs beside reading")
        for one in lacking:
            so = given_by(one, self._lease)
            words = f"may not {one.verb} {one.resource}"
            self.found.append(Finding(False, "rights", words, so, is_fatal=True))

    def _journal(self, cluster: str) -> World | None:
        """The state that a journal leads to, where there is one."""
        where = self._terms.journal
        if where == MEMORY:
            so = "a restart forgets promises and books: give -j"
            self.found.append(Finding(False, "journal", "kept in memory alone", so))
            return None
        try:
            refuse_unless_writable(where)
            if not exists(where):
                self._good("journal", f"a new one can be made: `{address.visible(where)}`")
                return None
            with open_journal(where) as opened:
                if not len(opened):
                    self._good("journal", f"`{opened.where}`, empty")
                    return None
                begun_ms(opened, self._terms.scheduler)
                refuse_other_cluster(opened, cluster)
                if opened.is_being_written() and not self._lease:
                    so = "stop that one, or let both have --lease"
                    words = f"`{opened.where}` is being written by another process"
                    self.found.append(Finding(False, "journal", words, so, is_fatal=True))
                    return None
                world = rebuild(opened)
                jobs = screen.count(world.job_count, "job")
                self._good("journal", f"`{opened.where}`: {jobs} so far")
                return world
        except TidemillError as error:
            self._refuse("journal", error)
            return None

    def _read_policy(self) -> SchedulerRules | None:
        try:
            return self._rules.read()
        except TidemillError as error:
            self._refuse("policy", error)
            return None

    def _policy(self, rules: SchedulerRules, seen: Differ, known: World | None) -> None:
        """Whether the rules can follow those of the journal, and name types that there are."""
        try:
            refuse_unless_folds(rules.fleet, known, seen.names)
        except TidemillError as error:
            self._refuse("policy", error)
            return
        teams = screen.count(len(rules.fleet.queues), "team")
        tiers = screen.count(len(rules.fleet.topology.tiers), "tier")
        self._good("policy", f"order {rules.policy.order}, {teams}, {tiers}")
        if unknown := unknown_types.of(rules.fleet.queues, seen.world):
            so = unknown_types.hint(unknown, seen.world)
            words = f"no node has {', '.join(unknown)}"
            self.found.append(Finding(False, "GPU types", words, so))
        for one in remarks.of_policy(rules.policy, rules.fleet, seen, self._terms.team_by):
            self.found.append(Finding(False, *one))

    def _nodes(self, seen: Differ) -> None:
        words = nodes_text(seen.world)
        if words:
            self._good("nodes", words)
            for name, why in nodes_out(seen)[:MOST_NAMED]:
                self.found.append(Finding(False, "nodes", f"{name} takes no work", why))
        else:
            so = "nobody can be placed until a node advertises GPUs"
            self.found.append(Finding(False, "nodes", "none has GPUs", so))
        unknown = seen.nodes.prices().unknown
        if unknown:
            some = ", ".join(unknown[:MOST_NAMED]) + ", …" * (len(unknown) > MOST_NAMED)
            words = f"{screen.count(len(unknown), 'node')} without one: {some}"
            self.found.append(Finding(False, "prices", words, NO_PRICE))
        elif words:
            self._good("prices", "every node with GPUs has one")

    def _jobs(self, seen: Differ) -> None:
        """Who asks for it now; those that it would not place are named with the reason."""
        waits = len(seen.submitted)
        words = f"{len(seen.unit_of) - waits} run, {waits} wait, {len(seen.held)} are held"
        self._good("jobs", f"schedulerName {self._terms.scheduler}: {words}")
        for unit, why in [*seen.held.items()][:MOST_NAMED]:
            self.found.append(Finding(False, unit.shown, why.reason, why.words))

    def _good(self, what: str, words: str) -> None:
        self.found.append(Finding(True, what, words))

    def _refuse(self, what: str, error: TidemillError) -> None:
        self.found.append(Finding(False, what, error.message, error.hint, is_fatal=True))


def nodes_text(world: World) -> str:
    """How many nodes with GPUs take work, how many do not, and the GPUs of either; "": none."""
    nodes, gpus = Counter[bool](), {True: Counter[str](), False: Counter[str]()}
    for n in range(world.node_count):
        count, state = world.nodes.devices.item(n), world.nodes.state.item(n)
        if count and state != NodeState.GONE:
            nodes[state == NodeState.READY] += 1
            gpus[state == NodeState.READY][world.kinds[world.nodes.kind.item(n)]] += count
    types = {
        which: ", ".join(f"{count:,} {kind}" for kind, count in sorted(some.items()))
        for which, some in gpus.items()
    }
    if not nodes:
        return ""
    words = f"{nodes[True]:,} with GPUs take work; {types[True] or 'no GPUs'}"
    does = "does" if nodes[False] == 1 else "do"
    return words + (f"; {nodes[False]:,} {does} not: {types[False]}" if nodes[False] else "")


def given_by(right: Right, lease: str) -> str:
    """What to do about a right that lacks; ``lease``: of which Lease the scheduler is to run."""
    if right.resource == "leases" and lease != LEASE:
        return (
            f"deploy/kubernetes/{right.file} gives it for `{LEASE}`: let --lease name that, or"
            f" write `{lease}` into a copy of that file; {right.rule}"
        )
    return f"apply deploy/kubernetes/{right.file}: {right.rule}"


def nodes_out(seen: Differ) -> list[tuple[str, str]]:
    """The nodes with GPUs that take no work, and why, as the cluster says it."""
    told = {one.node: one.words for one in keeping.node_reasons(seen)}
    world, found = seen.world, list[tuple[str, str]]()
    for n, row in enumerate(world.node_rows):
        state = NodeState(world.nodes.state.item(n))
        if world.nodes.devices.item(n) and state not in (NodeState.READY, NodeState.GONE):
            found.append((row.name, told.get(row.name) or state.name.lower()))
    return found


def _quiet(event: str, **told: object) -> None:
    """What the log would say is told by the findings."""
    del event, told
