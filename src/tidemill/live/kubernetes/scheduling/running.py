"""A scheduler of a cluster, from its journal to its last word: begin, go on, stop.

One event loop has all of it: the watches, the plans and the binds. Plans are made while pods and
nodes are watched, and only then; a plan takes milliseconds, so nothing waits long for it.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

from msgspec.structs import replace

import tidemill
from tidemill.engine.fold.one_event import fold
from tidemill.engine.loop import Loop
from tidemill.journal import (
    Journal,
    cluster_kinds,
    completeness,
    open_journal,
    others_waiting,
    policies,
    submissions,
)
from tidemill.journal.completeness import Begun
from tidemill.journal.keeping import RunKeeper
from tidemill.journal.moments import Calendar
from tidemill.journal.replay import rebuild
from tidemill.journal.scheduled import SCHEDULES
from tidemill.journal.source import FACT, Source
from tidemill.live.kubernetes.api.client import (
    UNREACHABLE,
    ApiClient,
    ApiRefusal,
    refused,
    unreachable,
)
from tidemill.live.kubernetes.api.kubeconfig import ClusterAccess
from tidemill.live.kubernetes.api.writing import ApiWriter
from tidemill.live.kubernetes.jobs import UnitKey
from tidemill.live.kubernetes.scheduling import keeping, remarks, unknown_types
from tidemill.live.kubernetes.scheduling.answers import Log, ServerRefusals
from tidemill.live.kubernetes.scheduling.backend import KubernetesBackend
from tidemill.live.kubernetes.scheduling.barring import RULE
from tidemill.live.kubernetes.scheduling.differ import Differ, FleetRules
from tidemill.live.kubernetes.scheduling.draining import Drains
from tidemill.live.kubernetes.scheduling.misread import Misread
from tidemill.live.kubernetes.scheduling.pulse import ServerPulse
from tidemill.live.kubernetes.scheduling.readers import READ
from tidemill.live.kubernetes.scheduling.refused_rules import (
    TAKEN,
    RefusedRules,
    refuse_unless_folds,
    waits,
)
from tidemill.live.kubernetes.scheduling.resizing import Resize, Resizer
from tidemill.live.kubernetes.scheduling.saying import Explainer, WaitSayer
from tidemill.live.kubernetes.scheduling.sending import Sender
from tidemill.live.kubernetes.scheduling.shapes import Unplaceable
from tidemill.live.kubernetes.scheduling.sight import ClusterSight
from tidemill.live.kubernetes.scheduling.view import ClusterView
from tidemill.live.kubernetes.watching import kinds
from tidemill.live.kubernetes.watching.mirror import ClusterCopy
from tidemill.live.kubernetes.watching.source import identity
from tidemill.live.observing.observer import CLUSTER
from tidemill.live.prices.rules import PriceRule, unpriced
from tidemill.model.errors import BackendError, JournalError, TidemillError
from tidemill.model.held import UnplacedJob
from tidemill.model.policy import Policy
from tidemill.model.topology import Tier
from tidemill.model.world import World

TOGETHER_S, LEAST_APART_S, LONGEST_APART_S = 0.002, 0.04, 0.1
"""Changes that come together are looked at together: a plan costs milliseconds, and a write to the
disk. So long is waited for more; and after a look twice as long as it took, within these limits."""
PER_CHANGE_S = 0.008
"""And so long for each change of a pod that the look was about: in a stream of more than about 60
pods per second ever more of them share a plan, until looks are as far apart as they may be."""
SETTLE_S = 60.0
MOST_NAMED = 8
"""Of many nodes of which the same is told."""
NO_PRICE = (
    "their dollars are unknown: give --usd-per-hour or --prices (--list-prices needs the label"
    " node.kubernetes.io/instance-type)"
)
FACTS_S, OTHERS_S = 1.0, 5.0
"""What is kept beside the events is written at most so often."""


class SchedulerRules(NamedTuple):
    """What the owner of a fleet decides: how work is placed, and who may use how much."""

    policy: Policy = Policy()
    fleet: FleetRules = FleetRules()


class RulesSource(Protocol):
    """Where the rules are kept."""

    place: Mapping[str, str]  # of those that hold: `file` or `object`, by its name

    def read(self) -> SchedulerRules:
        """The rules as they are now; ``SpecError`` if they cannot be used."""

    def has_changed(self) -> bool:
        """Whether they may be others than when they were read."""

    def settled(self, refused: TidemillError | None) -> None:
        """Those that were read last hold now, or were refused."""


class SchedulerTerms(NamedTuple):
    """What a scheduler was told by whoever started it."""

    journal: str
    scheduler: str = "tidemill"
    team_by: str = "namespace"
    price_of: PriceRule = unpriced
    zone: str = "UTC"
    may_drain: bool = False
    """Whether nodes that are going to be taken are cordoned and emptied."""
    may_resize: bool = False
    """Whether owners of elastic gangs are asked for more or fewer pods."""
    lease: str = ""
    """The Lease whose holder decides, and writes the journal; "": there is no other."""
    autoscaler_namespace: str = ""
    """Where cluster-autoscaler keeps its status; "": where it does by default."""


def live_policy(policy: Policy, *, may_resize: bool = False) -> Policy:
    """A policy without what nobody carries out on this backend: nodes are not ours to launch."""
    return replace(
        policy, may_provision=False, may_move=False, cull_idle_after_ms=0,
        may_resize=policy.may_resize and may_resize,
    )  # fmt: skip


class ClusterScheduler:
    """Decides for the pods that name it, until it is stopped."""

    def __init__(
        self,
        access: ClusterAccess,
        terms: SchedulerTerms,
        rules: RulesSource,
        log: Log,
        explain: Explainer,
        may_write: Callable[[], bool] = lambda: True,
    ) -> None:
        self._explain = explain
        self._access, self.terms, self._rules, self._log = access, terms, rules, log
        self.client, self._writer = ApiClient(access), ApiWriter(access)
        self.view = ClusterView(terms.scheduler, terms.team_by)
        self._changed = asyncio.Event()
        self.view.changed = self._changed.set
        self._may_write = may_write
        self._held: dict[UnitKey, Unplaceable] = {}
        self._facts: dict[str, str] = {}
        self._facts_at = self._others_at = 0.0
        self._others: list[UnplacedJob] = []
        self._others_ms: int | None = None
        """Who waits for other schedulers, and when that was last looked at."""
        self._unknown_types: tuple[str, ...] = ()
        self._tiers_by: tuple[tuple[Tier, ...], int] = ((), 0)
        """The tiers, and how many nodes there were, when their order was looked at."""
        self._misplaced: list[remarks.Remark] = []
        self.copy = ClusterCopy(
            self.client, self.client.clock.now_ms, on_change=self.view.take, readers=READ,
            autoscaler_namespace=terms.autoscaler_namespace,
        )  # fmt: skip
        self._pulse = ServerPulse(ApiClient(access), self.copy)
        self.sight = ClusterSight(self.copy, self._pulse, log)
        self.view.awaited.is_read = self.copy.is_read
        self.drains: Drains | None = None
        self.resizer: Resizer | None = None
        self.beats = 0
        self._priced, self._unpriced = -1, set[str]()
        """How many nodes there were when prices were looked at, and who had none."""
        self._changes = 0
        self._next_at = 0.0

    async def begin(self) -> None:
        """Read the journal and the cluster; ``BackendError`` if that one does not answer."""
        await self._ask()
        self._open(await identity(self.client))
        await self._settle()
        self._pulse.begin()
        self.view.look_at_all()

    async def look_on(self, rules: FleetRules) -> Differ:
        """The cluster as a first look shows it, in a state of its own; nothing is written."""
        await self._ask()
        await self._settle()
        found = Differ(World(), self.view, self.terms.price_of, lambda _: False)
        found.rules = rules
        self.view.look_at_all()
        for event in found.tell(0):
            fold(found.world, event)
        return found

    async def _ask(self) -> None:
        """Begin to read the cluster."""
        try:
            await self.client.get("/version")
            await self.copy.start()
        except ApiRefusal as error:
            raise refused(self._access, error, "schedule.yaml") from None
        except UNREACHABLE as error:
            raise unreachable(self._access, error) from None

    async def _settle(self) -> None:
        """Until all is read that may be read; pods and nodes have to be."""
        await self.copy.settle(SETTLE_S)
        if not self.is_watching:
            raise BackendError(
                f"asked for the pods and nodes of {self._access.named}; found"
                f" {'; '.join(self.sight.unwatched())}",
                hint="see deploy/kubernetes/schedule.yaml for what has to be allowed"
                + "".join(f"; missing rule: {rule}" for rule in self.sight.missing_rules),
            )

    def _open(self, cluster: str) -> None:
        rules = self._rules.read()
        policy = live_policy(rules.policy, may_resize=self.terms.may_resize)
        self.journal = open_journal(self.terms.journal, create=True)
        try:
            refuse_other_cluster(self.journal, cluster)  # whose Lease of this name is another one
            self._become_writer()
            if not len(self.journal):
                begin_journal(self.journal, self.terms, self.client.clock.now_ms(), policy)
            self._begins_ms = begun_ms(self.journal, self.terms.scheduler)
            if cluster and not self.journal.facts().get(CLUSTER, ""):
                self.journal.set_meta(CLUSTER, cluster)
            self.world = rebuild(self.journal)
            self.world.scheduler = self.terms.scheduler
        except BaseException:
            self.journal.close()
            raise
        self._keeper = RunKeeper(self.journal, self.world)
        self.sender = Sender(self._writer, self.view, self._may_write, self._settled)
        self.differ = Differ(
            self.world, self.view, self.terms.price_of, self.sender.is_being_sent
        )  # fmt: skip
        self.differ.rules, self.differ.cutting.policy = rules.fleet, policy
        self.differ.begins_ms = self._begins_ms
        keeping.names(self.differ, self.journal)
        self._refused = RefusedRules(self.world, self.differ.names)
        self.refusals = ServerRefusals(self.differ, self.sender, self._log)
        self.sayer = WaitSayer(self._writer, self.differ, self._explain, self.terms.scheduler)
        self.sender.on_bound = self.sayer.bound
        self._misread = Misread(self.differ, self.sayer, self._log)
        clock = self.client.clock
        self.backend = KubernetesBackend(
            self.world, self.view, self.differ, self.sender,
            lambda: clock.now_ms() - self._begins_ms,
        )  # fmt: skip
        if self.terms.may_drain:
            self.drains = Drains(
                self.world, self.view, self._writer, clock, self._begins_ms,
                may_evict=self.differ.may_evict, log=self._log,
            )  # fmt: skip
            self.differ.let_drain(self.drains)
        if self.terms.may_resize:
            self.resizer = self.backend.resizer = Resizer(
                self._writer, self.view, self._may_write, self._resized, self._log
            )
            self.differ.elastic.let_resize()
        self.loop = Loop(self.world, policy, self.backend, self._keeper)
        self.backend.on_kept = self.loop.forget
        self.backend.causes.update(self.world.queued)  # in the journal, perhaps on no pod
        for key, value in policies.facts(policy).items():
            self.journal.set_meta(key, value)
        self._rules.settled(None)
        for event, said in waits(self.world, rules.fleet, self.differ.names):
            self._log(event, said=said)

    def _become_writer(self) -> None:
        """Whoever leads writes: a leader whose Lease was taken over loses the journal too."""
        if self.terms.lease and self._may_write():
            self.journal.take_over(f"the Lease {self.terms.lease}")
        else:
            self.journal.claim()

    async def run(self, is_over: Callable[[], bool], longest_s: float = 1.0) -> None:
        """Look, plan and send, until told that it is over; who tells is asked that often."""
        while not is_over():
            await self._pause(longest_s)
            self.look()

    def look(self) -> bool:
        """One beat, if there is something to look at and all of it is known; whether it was."""
        self.copy.heed()
        self.sight.note()
        self._misread.objects(self.copy)
        self._read_rules()
        self._take_answers()
        self._keep_facts()
        if self.drains is not None and self.is_watching and self._may_write():
            self.drains.drain_ms = self.loop.policy.drain_ms
            self.drains.look()
        if self.resizer is not None:
            self.differ.elastic.look_at_overdue(self.backend.now_ms)
        if not self.is_watching or not self._may_write():
            return False
        self._follow_causes()
        if not self.backend.is_due:
            return False
        begun = time.monotonic()
        self.loop.beat(self.backend.next_ms())
        self.loop.commit()
        took_s = time.monotonic() - begun
        apart_s = max(2 * took_s, LEAST_APART_S, PER_CHANGE_S * self._new_changes())
        self._next_at = begun + took_s + min(apart_s, LONGEST_APART_S)
        self.beats += 1
        self._say()
        self._note_types()
        self._note_tiers()
        self._note_prices()
        return True

    def _new_changes(self) -> int:
        """How many changes of pods the watch told since this was last asked."""
        before, self._changes = self._changes, self.copy.copies[kinds.PODS].changes
        return self._changes - before

    def _say(self) -> None:
        """Jobs that came, or wait for another cause, are told why."""
        differ, world = self.differ, self.world
        came = [j for j in differ.submitted if j in differ.unit_of]
        self._keep_submissions()
        units = [differ.unit_of[j] for j in came]
        self._misread.annotations(units)
        for s in self.backend.causes:
            self.sayer.anew.forget(s)
            mine = self._waiting(s)
            self.sayer.note(mine, at_once=s in world.promised)
            units += mine
        held = {u: why for u, why in differ.held.items() if self._held.get(u) != why}
        self._misread.held(held)
        units += held
        self._held = dict(differ.held)
        for j in differ.left:
            self._log("gang lacks pods", job=world.job_names[j], said=keeping.SHORT)
            left = self.view.unit_pods(differ.unit_of[j])
            self.sayer.happened(left, "Scheduling", "PartialGang", keeping.SHORT)
        differ.left.clear()
        differ.submitted.clear()
        self.backend.causes.clear()
        self.sayer.note(units)

    def _waiting(self, s: int) -> list[UnitKey]:
        """The jobs of ours of a shape that wait."""
        unit_of = self.differ.unit_of
        return [unit_of[j] for j in self.world.waiting[s] if j in unit_of]

    def _follow_causes(self) -> None:
        """Jobs whose cause is another one, though nobody tried them since, are told."""
        others = self.sayer.anew.follow(self.loop.policy)
        for s in self.world.queued if self.sayer.kept_back.has_changed() else others:
            self.sayer.note(self._waiting(s))

    def _keep_submissions(self) -> None:
        """Jobs that are told later than they were created: since when they waited, no event says.

        They were there before the first look, were held, or request something else than before.
        """
        found = keeping.submissions(self.differ, self._begins_ms)
        if found.submitted or found.placed:
            known = submissions.kept(self.journal.facts(), self.journal.where)
            both = (before | after for before, after in zip(known, found, strict=True))
            for key, value in submissions.facts(*both).items():
                self.journal.set_meta(key, value)

    def _note_types(self) -> None:
        """GPU types in the policy file that no node has are told, with the nearest name."""
        found = unknown_types.of(self.differ.rules.queues, self.world)
        if found != self._unknown_types and found:
            hint = unknown_types.hint(found, self.world)
            self._log("policy names GPU types that no node has", types=list(found), hint=hint)
        self._unknown_types = found

    def _note_tiers(self) -> None:
        """Tiers in an order that nodes contradict are told, by the nodes that there are then."""
        ground = self.differ.rules.topology.tiers, len(self.view.machines)
        if ground == self._tiers_by:
            return
        self._tiers_by, found = ground, [*remarks.misplaced(ground[0], self.view.machines.values())]
        for one in found if found != self._misplaced else ():
            self._log("tiers in the wrong order", said=one.found, hint=one.so)
        self._misplaced = found

    def _note_prices(self) -> None:
        """Nodes that have no price, or another than is given now, are told once: when it begins,
        or when they join.
        """
        if self.world.node_count == self._priced:
            return
        is_first, self._priced = self._priced < 0, self.world.node_count
        found = self.differ.nodes.prices()
        unknown = [name for name in found.unknown if name not in self._unpriced]
        self._unpriced = {*found.unknown}
        kept = found.kept if is_first else []
        if unknown:
            self._log(
                "nodes without a price", count=len(unknown), nodes=unknown[:MOST_NAMED],
                hint=NO_PRICE,
            )  # fmt: skip
        if kept:
            self._log(
                "prices kept", count=len(kept), nodes=kept[:MOST_NAMED],
                hint="the journal has other prices of these nodes than are given now, and keeps"
                " them: only a new journal has others",
            )  # fmt: skip

    def _keep_facts(self) -> None:
        """Whom nobody places and whom nobody stops, and why nodes are out, beside the events."""
        now = time.monotonic()
        if now < self._facts_at or not self._may_write():
            return
        self._facts_at = now + FACTS_S
        held = [*keeping.held(self.differ, self._begins_ms), *self._of_others(now)]
        wanted = keeping.facts(self.differ, held, self._rules.place, self.sayer.ordered)
        for key, value in wanted.items():
            if self._facts.get(key) != value:
                self.journal.set_meta(key, value)
                self._facts[key] = value

    def _of_others(self, now: float) -> list[UnplacedJob]:
        """Who waits for other schedulers; since when is kept too. All pods are looked through."""
        if now >= self._others_at:
            self._others_at, at_ms = now + OTHERS_S, self.backend.now_ms
            since_ms = at_ms if self._others_ms is None else self._others_ms
            before, self._others_ms = self._others, at_ms
            self._others = [*keeping.of_others(self.differ, self._begins_ms)]
            kept, waits = self.journal.facts(), bool(before or self._others)
            told = others_waiting.of(kept, self.journal.where)
            spans = others_waiting.gone_on(told, since_ms, at_ms, waits=waits)
            if spans != told:
                self.journal.set_meta(*others_waiting.facts(spans).popitem())
        return self._others

    @property
    def is_settled(self) -> bool:
        """Whether all that the cluster shows was looked at, and all that was decided and is to be
        said is done.
        """
        is_idle = self.sender.is_idle and (self.resizer is None or self.resizer.is_idle)
        is_idle = is_idle and self.sayer.is_idle
        return self.is_watching and is_idle and not self.backend.is_due

    async def _pause(self, longest_s: float) -> None:
        """Until something changed, or it is time; changes that follow at once are waited for."""
        due_ms = self.backend.wake_ms - (self.client.clock.now_ms() - self._begins_ms)
        wait_s = 0.0 if self.backend.is_due else min(longest_s, max(0.0, due_ms / 1000))
        if wait_s:
            try:
                async with asyncio.timeout(wait_s):
                    await self._changed.wait()
            except TimeoutError:
                pass
        await asyncio.sleep(max(TOGETHER_S, self._next_at - time.monotonic()))
        self._changed.clear()

    @property
    def is_watching(self) -> bool:
        """Whether pods and nodes are known as they are now, and all else that was read before."""
        return self.sight.is_watching

    def _settled(self, j: int, is_as_asked: bool) -> None:
        if self.differ.settle(j, is_as_asked=is_as_asked):
            self._changed.set()

    def _resized(self, one: Resize) -> None:
        """The owner of a gang was asked for another number of pods."""
        words = keeping.resized_words(self.world, one, self.backend.resized.pop(one.job, None))
        self._log("resized", job=one.unit.shown, owner=one.owner.kind, said=words)
        self.sayer.resized(one, words)

    def _take_answers(self) -> None:
        """What was refused is held or goes on; who is evicted is told for whom, or why."""
        called_off = self.refusals.take()
        evicting, self.sender.evicting = self.sender.evicting, []
        leaving = {one.job: one.pods for one in evicting}
        for one in self.backend.stopped:
            if one.job in leaving:
                self.sayer.happened(leaving[one.job], *keeping.stopped_words(self.world, one))
        active = {one.job for one in self.backend.stopped if self.world.jobs.is_leaving[one.job]}
        active -= {*leaving, *called_off}
        self.backend.stopped = [one for one in self.backend.stopped if one.job in active]

    @property
    def why_standing(self) -> str:
        """Why it does nothing at all, whether or not it leads still; "": it does."""
        said = self.journal.away if hasattr(self, "journal") else ""
        return f"the server of the journal does not answer: {said}" if said else ""

    @property
    def why_not_ready(self) -> str:
        """Why it does not do its work, in one line; "": it does."""
        if self.why_standing:
            return self.why_standing
        if said := self.sight.why_not_ready:
            return said
        if said := self.refusals.barring.said:
            return f"binds are forbidden: {said}; missing rule: {RULE}"
        return ""

    def _read_rules(self) -> None:
        """Take rules that changed; rules that cannot be used are refused, and the old ones stay."""
        rules, said = self._refused.due(), TAKEN
        try:
            if self._rules.has_changed():
                self._refused.keep(None)
                rules, said = self._rules.read(), ""
            if rules is None:
                return
            refuse_unless_folds(rules.fleet, self.world, self.differ.names)
        except TidemillError as error:
            self._log("policy refused", said=error.message, hint=error.hint)
            self._refused.keep(rules)
            self._rules.settled(error)
            return
        self._rules.settled(None)
        policy = live_policy(rules.policy, may_resize=self.terms.may_resize)
        if policy != self.loop.policy or rules.fleet != self.differ.rules:
            self._log("policy changed", **({"said": said} if said else {}))
            self.loop.follow(policy)
            self.differ.rules, self.differ.cutting.policy = rules.fleet, policy
            for key, value in policies.facts(policy).items():
                self.journal.set_meta(key, value)
            self.backend.look()

    async def stop(self) -> None:
        """End everything, in good order."""
        await self._pulse.stop()
        await self.copy.stop()
        if self.drains is not None:
            await self.drains.stop()
        if self.resizer is not None:
            await self.resizer.stop()
        if hasattr(self, "sender"):
            await self.refusals.barring.stop()
            await self.sender.stop()
            await self.sayer.stop()
        try:
            if hasattr(self, "sender"):
                self.loop.commit()
                self.journal.save_snapshot(self.world)
        finally:
            if hasattr(self, "sender"):
                self.journal.close()
            await self._writer.close()
            await self.client.close()


def begin_journal(journal: Journal, terms: SchedulerTerms, begins_ms: int, policy: Policy) -> None:
    """Facts of a journal that nobody wrote into yet; safe to do again after a kill."""
    completeness.begin(journal, Begun(given=completeness.OBSERVED, version=tidemill.__version__))
    calendar = Calendar.since_1970(begins_ms, terms.zone)
    facts = {"name": cluster_kinds.KUBERNETES, FACT: str(Source.LIVE), SCHEDULES: terms.scheduler}
    facts |= cluster_kinds.facts({"": cluster_kinds.KUBERNETES})
    for key, value in {**facts, **calendar.facts(), **policies.facts(policy)}.items():
        journal.set_meta(key, value)


def refuse_other_cluster(journal: Journal, found: str) -> None:
    """Refuse a journal that is of another cluster than the one that was found."""
    known = journal.facts().get(CLUSTER, "")
    if found and known and found != known:
        raise JournalError(
            f"journal `{journal.where}` is of the cluster {known}; this is {found}",
            hint="give each cluster a journal of its own, or correct --context",
        )


def begun_ms(journal: Journal, scheduler: str) -> int:
    """When a journal of this scheduler began; one of somebody else is refused."""
    facts = journal.facts()
    if facts.get(SCHEDULES) != scheduler:
        raise JournalError(
            f"journal `{journal.where}` is not that of the scheduler `{scheduler}`",
            hint="a scheduler goes on only with its own journal: give another path",
        )
    begins = Calendar.of(facts).begins
    assert begins is not None, "whoever began it said so"
    assert begins.tzinfo is not None, "and in which zone"
    return round(begins.timestamp() * 1000)
