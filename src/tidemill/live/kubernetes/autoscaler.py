"""What cluster-autoscaler says of its node groups, in the ConfigMap that it keeps writing.

Since 1.30 that is YAML; the text for people that it wrote before is not read. It names groups as
the cloud does (a scaling group, the address of an instance group), so whose nodes are meant is
found by names and labels: where no node of a group is known, that is said with it.
"""

import re
from collections.abc import Iterable
from datetime import UTC, datetime

import msgspec
from msgspec import Struct

from tidemill.live.kubernetes import fields
from tidemill.live.kubernetes.fields import MalformedObjectError, Object
from tidemill.live.kubernetes.nodes import KubeNode
from tidemill.live.kubernetes.pods import PodRequest
from tidemill.model.errors import SpecError
from tidemill.model.measures import count_text

NAMESPACE, NAME = "kube-system", "cluster-autoscaler-status"
"""Where it writes by default; its option `--namespace` says otherwise."""
STALE_MS = 900_000
"""It is written every 10 s by default, and what it is held against is 5 minutes old at most."""
LONGEST_NAME, LONGEST_ERROR, LONGEST_WORDS = 60, 80, 160
_UUID = 36
_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


def checked(namespace: str) -> str:
    """Where somebody says that it writes; "": nobody does. ``SpecError`` if that cannot be."""
    if namespace and not _NAMESPACE.fullmatch(namespace):
        raise SpecError(
            f"--autoscaler-namespace is `{namespace}`, which cannot be a namespace",
            hint=f"such as {NAMESPACE}, without the name of the ConfigMap",
        )
    return namespace


class _Registered(Struct):
    ready: int | None = None


class _Counts(Struct):
    registered: _Registered = msgspec.field(default_factory=_Registered)


class _GroupHealth(Struct, rename="camel"):
    status: str = ""
    node_counts: _Counts = msgspec.field(default_factory=_Counts)
    cloud_provider_target: int | None = None
    max_size: int | None = None


class _Backoff(Struct, rename="camel"):
    error_code: str = ""
    error_message: str = ""


class _ScaleUp(Struct, rename="camel"):
    status: str = ""
    backoff_info: _Backoff = msgspec.field(default_factory=_Backoff)


class NodeGroup(Struct, rename="camel"):
    """A node group, as far as it is read."""

    name: str
    health: _GroupHealth = msgspec.field(default_factory=_GroupHealth)
    scale_up: _ScaleUp = msgspec.field(default_factory=_ScaleUp)

    @property
    def short(self) -> str:
        """Its name, without the way to it."""
        return self.name.rpartition("/")[2]

    def words(self) -> str:
        """What becomes of it; "": nothing that is known here."""
        target, most = self.health.cloud_provider_target, self.health.max_size
        is_full = target is not None and most is not None and target >= most
        up = self.scale_up
        if up.status == "InProgress":
            ready = self.health.node_counts.registered.ready
            how = ""
            if ready is not None and target is not None:
                are = "is" if target == 1 else "are"
                how = f": {ready} of {count_text(target, 'node')} {are} Ready"
            return f"is scaling up{how}" + (", its maximum" if is_full else "")
        if is_full:
            return f"is at its maximum ({target} of {most})"
        if up.status == "Backoff":
            told = (up.backoff_info.error_code, " ".join(up.backoff_info.error_message.split()))
            why = ": ".join(filter(None, told)) or "a scale-up that failed"
            cut = why if len(why) <= LONGEST_ERROR else why[: LONGEST_ERROR - 1] + "…"
            return f"backs off after {cut}"
        if self.health.status == "Unhealthy":
            return "is Unhealthy and not scaled up"
        if up.status == "NoActivity" and None not in (target, most):
            return f"is not scaling up ({target} of at most {most})"
        return ""


class _ClusterHealth(Struct, rename="camel"):
    last_probe_time: str = ""


class _ClusterWide(Struct):
    health: _ClusterHealth = msgspec.field(default_factory=_ClusterHealth)


class AutoscalerStatus(Struct, rename="camel"):
    """What it says of all; without ``autoscaler_status`` it is not understood."""

    autoscaler_status: str
    cluster_wide: _ClusterWide = msgspec.field(default_factory=_ClusterWide)
    node_groups: tuple[NodeGroup, ...] = ()
    namespace: str = NAMESPACE
    """Of the ConfigMap."""

    @property
    def shown_by(self) -> str:
        """The command that shows it."""
        return f"kubectl get cm -n {self.namespace} {NAME} -o yaml"

    @property
    def is_understood(self) -> bool:
        """Whether it was the YAML that is written since 1.30."""
        return bool(self.autoscaler_status)

    @property
    def probed_ms(self) -> int | None:
        """When it looked last; None: it does not say."""
        try:
            return fields.moment_ms({"told": self.cluster_wide.health.last_probe_time}, "told")
        except MalformedObjectError:  # Go writes no time as that of the year 1
            return None


def read(one: Object) -> AutoscalerStatus | None:
    """The status in its ConfigMap; None: it is another one."""
    if fields.text(one, "metadata", "name") != NAME:
        return None
    try:
        found = msgspec.yaml.decode(fields.text(one, "data", "status"), type=AutoscalerStatus)
    except (msgspec.DecodeError, RecursionError):
        found = AutoscalerStatus("")
    found.namespace = fields.text(one, "metadata", "namespace")
    return found


class GroupsNow:
    """Node groups with the nodes of each, as far as these are known."""

    def __init__(self, status: AutoscalerStatus, nodes: Iterable[KubeNode], seen_ms: int) -> None:
        self.is_understood, self.shown_by = status.is_understood, status.shown_by
        self._groups, self._nodes = status.node_groups, _by_group(status.node_groups, nodes)
        self._answered: dict[PodRequest, str] = {}
        probed_ms, self._of = status.probed_ms, ""
        if probed_ms is not None and seen_ms - probed_ms > STALE_MS:
            self._of = f"{datetime.fromtimestamp(probed_ms / 1000, UTC):%Y-%m-%d %H:%M} UTC"

    def words(self, request: PodRequest) -> str:
        """What is said of the groups whose nodes would take a pod, and how to see it."""
        if self._of:
            return f"the last status of cluster-autoscaler is of {self._of} ({self.shown_by})"
        if request not in self._answered:
            self._answered[request] = self._words(request)
        return self._answered[request]

    def _words(self, request: PodRequest) -> str:
        told = [group for group in self._groups if group.words()]
        told.sort(key=lambda group: (group.scale_up.status != "InProgress", group.short))
        able = [g for g in told if any(would_take(node, request) for node in self._nodes[g.short])]
        unknown = [group for group in told if not self._nodes[group.short]]
        beside = "" if able else " (no node of it is known)"
        lines = [f"`{g.short[-LONGEST_NAME:]}`{beside} {g.words()}" for g in able or unknown]
        if not lines:
            return ""
        shown = lines[:1]
        for line in lines[1:]:
            if len(", ".join([*shown, line])) <= LONGEST_WORDS:
                shown.append(line)
        more = f", and {len(lines) - len(shown)} more" if len(lines) > len(shown) else ""
        return f"the autoscaler's node group {', '.join(shown)}{more} ({self.shown_by})"


def _by_group(groups: Iterable[NodeGroup], nodes: Iterable[KubeNode]) -> dict[str, list[KubeNode]]:
    """By the short name of a group: the nodes whose labels or names tell that they are of it."""
    found: dict[str, list[KubeNode]] = {group.short: [] for group in groups}
    called = {name: name for name in found}
    for name in found:
        if name.startswith("eks-"):  # eks-GROUP-UUID; nodes are labelled GROUP
            called.setdefault(name[4 : -_UUID - 1], name)
    for node in nodes:
        # GKE: gke-CLUSTER-POOL-HASH-grp has nodes gke-CLUSTER-POOL-HASH-abcd; AKS: aks-POOL-N-vmss
        # has aks-POOL-N-vmss000001
        names = {*node.labels.values(), f"{node.name.rpartition('-')[0]}-grp", node.name[:-6]}
        for name in {called[one] for one in names & called.keys()}:
            found[name].append(node)
    return found


def would_take(node: KubeNode, request: PodRequest) -> bool:
    """Whether an empty node like this one would take a pod."""
    is_large = request.gpu is None or node.capacity.get(request.gpu.resource, 0) >= request.gpu.each
    return is_large and request.selects(node.labels) and all(
        request.tolerates(taint.key, taint.value, taint.effect)
        for taint in node.taints if taint.keeps_out
    )  # fmt: skip
