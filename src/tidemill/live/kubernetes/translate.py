"""What the files of a cluster show, as the attempts and nodes of a history (``live.history``)."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import polars as pl
from msgspec.structs import replace

from tidemill.live.history import cut_gpus
from tidemill.live.history.attempts import LONGEST_NAME, kind_of
from tidemill.live.history.rows import ATTEMPTS, NEVER_UP_MS, AttemptEnd, SeenNode
from tidemill.live.kubernetes import (
    admission,
    beyond,
    cohorts,
    import_notes,
    kai_parts,
    kueue,
    node_clocks,
    node_notes,
    objects,
    parts,
    pending,
    pods_as_made,
    quotas,
    resources,
    seen_nodes,
    shared_claims,
    unkept_rules,
    unmet,
    vanished,
)
from tidemill.live.kubernetes import cluster as clusters
from tidemill.live.kubernetes import jobs as units
from tidemill.live.kubernetes.beside_jobs import HostsTaken
from tidemill.live.kubernetes.cluster import Cluster, ToldObjects
from tidemill.live.kubernetes.fleet_now import FleetNow
from tidemill.live.kubernetes.job_roles import JobRole
from tidemill.live.kubernetes.jobs import KubeJob, TeamRule
from tidemill.live.kubernetes.kai_parts import SharedGpus
from tidemill.live.kubernetes.nodes import KubeNode
from tidemill.live.kubernetes.objects import RefusedObject
from tidemill.live.kubernetes.pods import KubePod
from tidemill.live.kubernetes.resources import is_whole_name
from tidemill.live.kubernetes.scheduling import shapes
from tidemill.live.kubernetes.stretches import HeldPod, Stretch, ended_later, held_pods, stretches
from tidemill.model import lives
from tidemill.model.admission import NO_ADMISSION, Admission
from tidemill.model.claim_sharers import ClaimSharer
from tidemill.model.measures import WHOLE_MILLI, clause_text, count_text
from tidemill.model.node_rules import LabelCondition, LabelTest, NodeRules
from tidemill.model.quota_use import QuotaUse
from tidemill.model.rows import (
    MAX_COUNT,
    MAX_DEVICES,
    OF,
    RESOURCE,
    UNKEPT,
    Queue,
    Role,
    Shape,
    whole_type,
)

_ROWS_AT_ONCE = 1 << 13
_LONGEST_WORDS = 200
"""Of what no node has, in the place of a label."""


class KubernetesPast(NamedTuple):
    """What the files of a cluster tell together."""

    attempts: pl.DataFrame
    shapes: list[Shape]
    nodes: list[SeenNode]
    queues: list[Queue]
    notes: tuple[str, ...]
    refused: list[RefusedObject]
    """What could not be read: the first of them."""
    refusals: int
    seen_ms: int
    """The youngest time in any object: about when the files were made."""
    pods: dict[tuple[str, str], str]
    """The job of each pod, by namespace and name."""
    deciders: dict[str, str]
    """By job: who decides for it, where that is not the cluster's own scheduler."""
    quota_use: tuple[QuotaUse, ...] = ()
    """What is used up of the quotas of namespaces that are teams."""
    claim_sharers: tuple[ClaimSharer, ...] = ()
    """Pods that share the claims of jobs, and are none themselves."""
    admission: Admission = NO_ADMISSION
    """By which queues of Kueue's work is let in, and what of their quotas is used up."""
    end_notes: tuple[str, ...] = ()
    """Which times in the files are younger than ``seen_ms``, and why they are not believed."""
    is_idle: bool = False
    """Whether there are nodes with GPUs and pods, and none of those requests any."""


def read(paths: Sequence[Path], team_by: str = "namespace") -> KubernetesPast:
    """All of these files and folders."""
    return translate(objects.load(paths), team_by)


class ToldCluster(ToldObjects, Protocol):
    """Everything that somebody tells of a cluster, and what of it could not be read."""

    refused: list[RefusedObject]
    refusals: int

    def left(self) -> Counter[str]:
        """Objects of kinds that nobody asked for."""


def translate(
    told: ToldCluster, team_by: str = "namespace", *, looks_back: bool = True
) -> KubernetesPast:
    """The history that these objects show; ``looks_back``: all of it is known (``stretches``)."""
    cluster, clocks = node_clocks.righted(clusters.read(told), looks_back=looks_back)
    rule = TeamRule(team_by, cluster)
    made = _Translation(cluster, looks_back=looks_back)
    for job in units.jobs_of(cluster, rule, looks_back=looks_back):
        made.add(job)
    blind, nodes = vanished.unseen(cluster), list[SeenNode]()
    for part, node in made.parts:
        unseen = blind.get(node.name, ())
        if part is node and node.devices:
            seen = seen_nodes.of(node, made.selected, unseen)
            is_plain = len(node.capacity) < 2 and bool(node.given)  # cut anew it has fewer too
            nodes.append(replace(
                seen, failed=node.unadvertised, advertised=seen_nodes.advertised(node),
                may_lose=is_plain,
            ))  # fmt: skip
        elif part is node and node.given:  # it may have had some
            seen = seen_nodes.of(node, made.selected, unseen)
            nodes.append(replace(seen, advertised=seen_nodes.advertised(node), may_lose=True))
        elif part.devices:
            mine, whole = (seen_nodes.of(one, made.selected, unseen) for one in (part, node))
            mine = replace(mine, advertised=seen_nodes.advertised(part))
            nodes.append(parts.seen(mine, part, whole))
    taken = HostsTaken(cluster.nodes, cluster.pods, made.pods)
    nodes = taken.put_into(nodes)
    if looks_back:  # an observer sees when a node is first shown to be out, or is gone
        nodes += seen_nodes.left(cluster)
        worked = {pod.node for pod in cluster.pods if pod.request.gpu is not None}
        unsaid = {n.name: state for n, of in made.parts for since, state in (n.out_since(),)
                  if since is None or (n.is_silent and of.name in worked)}  # fmt: skip
        nodes = [replace(node, out=(), now=state) if (state := unsaid.get(node.name)) else node
                 for node in nodes]  # fmt: skip
    every = [part for part, _ in made.parts]
    notes = [*made.said(), *node_notes.said(every, looks_back=looks_back), *vanished.said(cluster)]
    notes += clocks
    queues = _queues(cluster, every, rule, notes)
    admits = admission.of(cluster, _kinds(every), rule.by, made.admitted, notes)
    if cluster.autoscaler is not None and not cluster.autoscaler.is_understood:
        notes.append(
            "cluster-autoscaler's status is not the YAML that it writes since 1.30 and is not"
            f" understood: what its node groups do is unknown ({cluster.autoscaler.shown_by})"
        )
    if left := told.left():
        listed = ", ".join(f"{kind} ({count:,})" for kind, count in sorted(left.items()))
        notes.append(f"not read: {listed}")
    return KubernetesPast(
        made.attempts(), made.shapes, nodes, queues, tuple(notes), told.refused, told.refusals,
        cluster.seen_ms, made.pods, made.deciders,
        quotas.used(cluster.quotas, _kinds(every)) if rule.by == "namespace" else (),
        claim_sharers=tuple(shared_claims.sharers(cluster.pods, cluster.claims, made.pods)),
        end_notes=cluster.end_notes,
        admission=admits,
        is_idle=bool(cluster.pods) and any(node.gpus for node in nodes) and not told.refusals,
    )  # fmt: skip


class _Translation:
    """Rows and shapes, job by job, and what is to be said of them."""

    def __init__(self, cluster: Cluster, *, looks_back: bool) -> None:
        self.cluster, self._looks_back = cluster, looks_back
        self._rows: list[dict[str, Any]] = []
        self._frames: list[pl.DataFrame] = []
        self.shapes: list[Shape] = []
        self.pods: dict[tuple[str, str], str] = {}
        self.deciders: dict[str, str] = {}
        self.admitted = list[str]()
        """Jobs that hold quota of Kueue's, and wait."""
        self.selected = {key for one in cluster.flavors.values() for key in one.labels}
        """Labels that jobs select nodes by, or will by a flavor of Kueue's."""
        there = [node for node in cluster.nodes if node.gone_ms is None]
        self._fleet = FleetNow(there, cluster.pods)
        self._fleet.either, self._fleet.cut = cluster.either, cluster.cut
        queued = (cluster.workloads, cluster.local_queues, cluster.cluster_queues)
        self._fleet.heads = kueue.heads(*queued)
        self.parts = [(part, node) for node in cluster.nodes for part in parts.of_node(node)]
        """All nodes, those with several sorts of accelerators in parts; and what they are of."""
        self._part = {(node.name, resource): part for part, node in self.parts
                      for resource in part.capacity}  # fmt: skip
        by_both = [(part, node) for part, node in self.parts if node.claimable]
        self._is_either = bool(by_both)
        """Whether nodes give out the same devices by a plug-in and by claims."""
        self._part |= {(node.name, resources.CLAIMED): part for part, node in by_both
                       if any(map(is_whole_name, part.capacity))}  # fmt: skip
        self._kinds = {kind_of(part.gpu_type) for part, _ in self.parts if part.devices}
        self._having = dict[str, set[str]]()
        for (_, resource), part in self._part.items():
            self._having.setdefault(resource, set()).add(kind_of(part.gpu_type))
        told = {one: tuple(kinds) for one, kinds in self._having.items()
                if one not in (resources.CLAIMED, *cluster.either)}  # fmt: skip
        self._twins = {one for one in told if shapes.has_twin(told, one)}
        """Resources of a type that another one is of too: nodes are told apart by them."""
        # labels of nodes that were told before do not change: those of shares always have it
        self.parts = [
            (parts.by_resource(part) if self._is_named(part) else part, node)
            for part, node in self.parts
        ]
        self._shared = SharedGpus(cluster.pods)
        self._numbers: dict[Shape, int] = {}
        self._names: dict[str, units.UnitKey] = {}
        self._refused, self._outlived = list[KubePod](), list[KubeJob]()
        self._notes = Counter(
            import_notes.not_booked(pod.request.uncounted)
            for pod in cluster.pods if pod.request.uncounted and pod.request.gpu is None
        )  # fmt: skip
        if unknown := sum(import_notes.has_unknown_claim(cluster, pod) for pod in cluster.pods):
            self._notes[import_notes.UNKNOWN_CLAIM] = unknown

    def _is_named(self, part: KubeNode) -> bool:
        """Whether a node says which resource it advertises."""
        return bool(self._twins) if self._looks_back else OF in kind_of(part.gpu_type)

    def add(self, job: KubeJob) -> None:
        """Take a job in, if it requests accelerators."""
        self._note(job)
        if not job.roles:
            return
        if self._looks_back:  # an observer is told of groups that there are, and of rights it lacks
            self._notes.update([import_notes.LOST_PODS] * job.has_lost_pods)
            job, unknown = beyond.of_unknown_group(self.cluster.groups, job)
            self._notes.update([unknown] * bool(unknown))
        job = beyond.without_impossible(self._fleet, job)
        made = [self._role(role) for role in job.roles]
        if any(one is None for one in made):
            return
        roles = tuple(one for one in made if one is not None)
        if tied := ", ".join(unkept_rules.tied(job)):  # whether what is free would do is unknown
            roles = (replace(roles[0], name=f"{UNKEPT}{tied}"[:LONGEST_NAME]), *roles[1:])
        shape = Shape(
            job.team[:LONGEST_NAME] or "unknown", self._elastic(job, roles), job.job_class,
            job.priority, job.is_preemptible,
            may_preempt=job.may_preempt, quota=job.quota[:LONGEST_NAME],
        )  # fmt: skip
        self._outlived += [job] * (self._looks_back and job.is_outlived)
        self._refused += [pod for pod in job.pods if pod.outcome is AttemptEnd.REJECTED]
        held = held_pods(job)
        parts = stretches(job, held, looks_back=self._looks_back)
        rows = [self._row(job, shape, one) for one in parts]
        self._end(job, shape, rows, held)
        self._rows += rows
        if len(self._rows) >= _ROWS_AT_ONCE:
            self._put_away()
        self._note_admitted(job, rows[-1:])
        for row in rows[:1]:
            self.pods |= {(pod.namespace, pod.name): row["job"] for pod in (*job.pods, *job.beyond)}
            if decider := unkept_rules.decider(job):
                self.deciders[lives.numbered(row["job"], job.life)] = decider

    def _note_admitted(self, job: KubeJob, last: list[dict[str, Any]]) -> None:
        """Remember a job that holds quota of Kueue's, and waits."""
        is_let_in = job.workload is not None and job.workload.has_quota
        waits = [row for row in last if is_let_in and row["outcome"] is AttemptEnd.WAITING]
        self.admitted += [lives.numbered(row["job"], job.life) for row in waits]

    def _note(self, job: KubeJob) -> None:
        """What is to be said of its requests."""
        for pod in job.pods:
            if pod.request.also:
                listed = ", ".join(pod.request.also)
                self._notes[f"pods request {listed} beside another accelerator: not booked"] += 1
        if not job.pods:
            self._notes.update(pods_as_made.said(job.templates, self.cluster.nodes))

    def _put_away(self) -> None:
        """Make columns of the rows: as dictionaries they take ten times as much memory."""
        self._frames.append(pl.DataFrame(self._rows, schema=ATTEMPTS))
        self._rows = []

    def attempts(self) -> pl.DataFrame:
        """The rows of all jobs."""
        self._put_away()
        return pl.concat(self._frames, rechunk=True)

    def said(self) -> list[str]:
        """What people should know of it."""
        notes = [clause_text(count, words) for words, count in sorted(self._notes.items())]
        notes += shared_claims.notes(self.cluster.pods, self.cluster.claims)
        notes += kai_parts.misread(self.cluster.pods)
        notes += import_notes.outlived(self._outlived)
        if self._refused:
            many = len(self._refused)
            by = "was refused by its node" if many == 1 else "were refused"
            whose = f"{count_text(many, 'pod')} {by}"
            first = f"{self._refused[0].full_name} ({self._refused[0].refusal})"
            notes.append(f"{whose}: others had taken the GPUs first; the first is {first}")
        return notes

    def _role(self, role: JobRole) -> Role | None:
        """What a role asks for, in the words of the model; None: that cannot be said."""
        assert role.request.gpu is not None, "roles without GPUs are left out"
        resource, count = role.request.gpu
        rules = self._rules(role) if self.cluster.nodes else NodeRules()  # unlisted: unlabelled
        self.selected |= rules.keys
        if count > MAX_DEVICES:
            self._notes[f"jobs request more than {MAX_DEVICES} GPUs per pod: left out"] += 1
            return None
        if resources.is_cut_by_claim(resource):
            return self._instance(role, rules)
        if (milli := role.request.part_milli) < WHOLE_MILLI:  # each is a part of one GPU
            cpu, memory = role.request.cpu_milli // count, role.request.memory_mib // count
            return Role(
                role.name[:LONGEST_NAME], min(role.count * count, MAX_COUNT), 1, milli, cpu, memory,
                kinds=self._kinds_of(resource, role), **rules._asdict(),
            )  # fmt: skip
        return Role(
            role.name[:LONGEST_NAME], min(role.count, MAX_COUNT), count,
            cpu_milli=role.request.cpu_milli, memory_mib=role.request.memory_mib,
            kinds=self._kinds_of(resource, role), **rules._asdict(),
        )  # fmt: skip

    def _rules(self, role: JobRole) -> NodeRules:
        """Which nodes a role may be on; a claim is given nothing that a plugin has, nor inversely.

        That is said where GPU types do not tell the two apart.
        """
        assert role.request.gpu is not None, "roles without GPUs are left out"
        rules, resource = role.request.rules, role.request.gpu.resource
        by_claim = self._having.get(resources.CLAIMED, set())
        if not any(pod.node for pod in role.pods) and unmet.lacks_devices(role.request):
            words = role.request.device_words
            lacking = words if len(words) <= _LONGEST_WORDS else f"{words[: _LONGEST_WORDS - 1]}…"
            rules = rules._replace(labels=tuple(sorted((*rules.labels, (lacking, "yes")))))
        if resource in self.cluster.either:
            return rules
        if resource == resources.CLAIMED or resources.is_cut_by_claim(resource):
            others = (having for one, having in self._having.items() if one != resources.CLAIMED)
            if self._is_either or by_claim.isdisjoint(set().union(*others)):
                return rules
            return rules._replace(
                labels=tuple(sorted((*rules.labels, (resources.BY_CLAIM, "yes"))))
            )
        is_named = self._looks_back or all(OF in kind for kind in self._having.get(resource, ()))
        if resource in self._twins and is_named:
            rules = rules._replace(labels=tuple(sorted((*rules.labels, (RESOURCE, resource)))))
        if by_claim.isdisjoint(self._having.get(resource, ())):
            return rules
        by_plugin = LabelCondition(resources.BY_CLAIM, LabelTest.ABSENT)
        return rules._replace(
            affinity=tuple((*choice, by_plugin) for choice in rules.affinity or ((),))
        )

    def _instance(self, role: JobRole, rules: NodeRules) -> Role | None:
        """MIG instances that whole GPUs are cut for: parts of those, by MIG's geometry."""
        assert role.request.gpu is not None, "it has some"
        profile, each = role.request.gpu.profile, role.request.gpu.each
        sizes = {kind: cut_gpus.instance_milli(kind, profile) for kind in sorted(self._kinds)}
        here = [self._part.get((pod.node, resources.CLAIMED)) for pod in role.pods if pod.node]
        mine = {kind_of(part.gpu_type) for part in here if part} or {k for k in sizes if sizes[k]}
        mine = mine & {*map(kind_of, role.request.device_types)} or mine
        milli = {sizes.get(kind, 0) for kind in mine}
        if len(milli) != 1 or not (found := milli.pop()):
            self._notes[f"jobs have MIG instances of a profile ({profile}) whose size nobody knows:"
                        " not booked"] += 1  # fmt: skip
            return None
        count = min(role.count * each, MAX_COUNT)
        cpu, memory = role.request.cpu_milli // each, role.request.memory_mib // each
        return Role(
            role.name[:LONGEST_NAME], count, 1, found, cpu, memory, kinds=tuple(sorted(mine)),
            profile=profile, **rules._asdict(),
        )  # fmt: skip

    def _kinds_of(self, resource: str, role: JobRole) -> tuple[str, ...]:
        """The kinds of accelerators that a resource is where pods sit, or anywhere; () is any."""
        here = (self._part.get((pod.node, one.resource))
                for pod in role.pods if pod.node and (one := pod.request.gpu))  # fmt: skip
        by_claim = self._having.get(self.cluster.either.get(resource, ""), set())
        having = {kind_of(part.gpu_type) for part in here if part}
        is_placed = bool(having)
        having = having or self._having.get(resource, set()) | by_claim
        if not having:  # who wants parts of GPUs that no node has does not get others instead
            return () if is_whole_name(resource) else (resource,)
        if told := {*map(kind_of, role.request.device_types)}:
            anywhere = self._having.get(resource, set()) | by_claim
            chosen = {kind for kind in anywhere if whole_type(kind) in told}
            having = chosen | (having if is_placed else set()) or having
        is_any = having == self._kinds and not any(OF in kind for kind in having)
        return () if is_any else tuple(sorted(having))

    def _place(self, pod: KubePod) -> str:
        """The node, or the part of it, that a pod sits on."""
        resource = pod.request.gpu.resource if pod.request.gpu else ""
        is_cut = resources.is_cut_by_claim(resource)
        part = self._part.get((pod.node, resources.CLAIMED if is_cut else resource))
        if part is not None or is_cut or is_whole_name(resource):
            return part.name if part is not None else pod.node
        return f"{pod.node}{parts.BETWEEN}{resource.rpartition('/')[2]}"

    def _elastic(self, job: KubeJob, roles: tuple[Role, ...]) -> tuple[Role, ...]:
        """A gang that works with fewer of its pods says so."""
        if len(roles) != 1 or not 0 < job.least < job.roles[0].count:
            return roles
        (role,) = roles  # of a pod with several parts each is a replica
        return (replace(role, least=job.least * (role.count // job.roles[0].count)),)

    def _row(self, job: KubeJob, shape: Shape, stretch: Stretch) -> dict[str, Any]:
        start_ms, end_ms, outcome, held, up_ms, done = stretch
        nodes, roles, masks = list[str](), list[int](), list[int]()
        for one in held:
            gpu = one.pod.request.gpu
            is_part = one.pod.request.part_milli < WHOLE_MILLI
            is_cut = gpu is not None and resources.is_cut_by_claim(gpu.resource)
            each = gpu.each if gpu and (is_cut or is_part) else 1
            nodes += [self._place(one.pod)] * each
            roles += [one.role] * each
            mine = [*self._shared_by(one.pod)] if is_part else [self._mask(one)] * each
            masks += (mine + [0] * each)[:each]
        milli = sum(shape.roles[r].replica_milli for r in roles)
        return self._base(job, shape) | {
            "start_ms": start_ms, "end_ms": end_ms, "outcome": outcome, "nodes": nodes,
            "roles": roles, "devices": masks, "up_ms": up_ms,
            "gpus": max(1, -(-milli // WHOLE_MILLI)), "needed": _needed(job, shape, done),
        }  # fmt: skip

    def _shared_by(self, pod: KubePod) -> Iterator[int]:
        """The GPUs that a pod has parts of."""
        part = self._part.get((pod.node, kai_parts.RESOURCE))
        return self._shared.masks(pod, part.devices if part is not None else 0)

    def _mask(self, one: HeldPod) -> int:
        """The devices that a pod was given (DRA); 0: nobody says."""
        mask = 0
        for claim in clusters.claims_of(one.pod, self.cluster.claims):
            for device in claim.held or claim.had:
                node, number = self.cluster.devices.get(device, ("", 0))
                if node == one.pod.node and number < MAX_DEVICES:
                    mask |= 1 << number
        return mask

    def _end(
        self, job: KubeJob, shape: Shape, rows: list[dict[str, Any]], held: list[HeldPod]
    ) -> None:
        """What becomes of a job after what its pods held: it waits, or was taken back."""
        end = job.end or _deleted(job)
        if not rows and not held and end is not None:
            end_ms = max(end[1], job.submit_ms or 0)
            rows.append(self._base(job, shape) | {
                "end_ms": end_ms, "outcome": AttemptEnd.CANCELLED,
                "gpus": _requested(shape),
            })  # fmt: skip
            return
        last = rows[-1] if rows else None
        if last is not None and last["end_ms"] is None:
            if last["up_ms"] >= NEVER_UP_MS:
                self._explain(job, last)
            return
        needed = _needed(job, shape, max(map(job.done, job.roles), default=0))
        waits = [pod for pod in job.pods if pod.is_pending]
        is_over = job.end is not None or (not waits and _is_finished(job))
        if is_over:
            if (
                last is not None
                and job.end is not None
                and ended_later(
                    job.end, last["end_ms"], last["outcome"], looks_back=self._looks_back
                )
            ):
                rows.append(self._base(job, shape) | {
                    "end_ms": job.end[1], "outcome": AttemptEnd.CANCELLED,
                    "gpus": _requested(shape), "needed": needed,
                })  # fmt: skip
            return
        row = self._base(job, shape) | {
            "outcome": AttemptEnd.WAITING, "gpus": _requested(shape),
            "needed": needed,
        }  # fmt: skip
        self._explain(job, row)
        rows.append(row)

    def _explain(self, job: KubeJob, row: dict[str, Any]) -> None:
        found = pending.why(self.cluster, self._fleet, job)
        if found is not None:
            row["is_eligible"] = found.is_eligible
            row["reason"], row["reason_cause"] = found.words, int(found.cause)
            row["reason_layer"], row["reason_ms"] = int(found.layer), found.since_ms

    def _base(self, job: KubeJob, shape: Shape) -> dict[str, Any]:
        number = self._numbers.setdefault(shape, len(self.shapes))
        if number == len(self.shapes):
            self.shapes.append(shape)
        return dict.fromkeys(ATTEMPTS) | {
            "job": self._name(job), "team": shape.team, "submit_ms": self._submit_ms(job),
            "priority": shape.priority, "shape": number, "life": job.life,
        }  # fmt: skip

    def _submit_ms(self, job: KubeJob) -> int | None:
        """When it was submitted; of pods of a Job that was seen to wait, when they were made.

        So it is where earlier pods are forgotten: whether it waited or ran before nobody knows.
        """
        is_told = self._looks_back or job.key.kind != "Pod" or not job.pods
        if self._looks_back and (job.has_lost_pods or job.is_made_at_once):
            is_told = False
        return job.submit_ms if is_told else min(pod.created_ms for pod in job.pods)

    def _name(self, job: KubeJob) -> str:
        """Its namespace and name; where two have the same, with its kind."""
        name = job.name
        if self._names.setdefault(name, job.key) != job.key:
            name = f"{name} ({job.key.kind})"
        if len(name) > LONGEST_NAME or self._names.setdefault(name, job.key) != job.key:
            digest = sha256(repr(job.key).encode()).hexdigest()[:8]
            name = f"{name[: LONGEST_NAME - 9]}-{digest}"
        return name


def _needed(job: KubeJob, shape: Shape, done: int) -> int | None:
    """How many GPUs a job asks for after some of its pods ended well; None: nobody says."""
    if len(shape.roles) != 1 or shape.roles[0].milli != WHOLE_MILLI or not job.ends_pod_by_pod:
        return None
    (role,) = shape.roles
    return job.at_once(role.count, done) * role.accelerators


def _requested(shape: Shape) -> int:
    return max(1, -(-shape.total_milli // WHOLE_MILLI))


def _deleted(job: KubeJob) -> tuple[AttemptEnd, int] | None:
    """When a job without an owner was deleted; None: it was not."""
    times = [pod.deleted_ms for pod in job.pods if pod.deleted_ms is not None]
    is_gone = bool(times) and len(times) == len(job.pods) and job.owner is None
    return (AttemptEnd.CANCELLED, max(times)) if is_gone else None


def _is_finished(job: KubeJob) -> bool:
    """Whether a job without a word from its owner has ended: all that exists of it has.

    So has one whose owner no later export shows either, though none says that it is gone.
    """
    owner = job.owner
    is_unsaid = owner is None or (
        owner.last_ms is not None and any(pod.gone_ms is not None for pod in job.pods)
    )
    return bool(job.pods) and is_unsaid and all(pod.is_over for pod in job.pods)


def _kinds(all_parts: Iterable[KubeNode]) -> list[tuple[str, Mapping[str, str], str]]:
    """The GPU type, the labels and each resource of what there is."""
    return [
        (kind_of(part.gpu_type), part.labels, resource)
        for part in all_parts if part.devices
        for resource in part.capacity or resources.WHOLE
    ]  # fmt: skip


def _queues(
    cluster: Cluster, all_parts: Iterable[KubeNode], rule: TeamRule, notes: list[str]
) -> list[Queue]:
    """Teams with quotas: Kueue's cluster queues, or namespaces with a ResourceQuota."""
    kinds = _kinds(all_parts)
    notes += () if rule.by == "namespace" else quotas.unread(cluster.quotas)
    if rule.by == "queue":
        found = (cluster.cluster_queues, cluster.cohorts, cluster.flavors)
        return cohorts.queues(*found, kinds, notes)
    if rule.by != "namespace":
        return []
    return quotas.queues(cluster.quotas, kinds, notes)
