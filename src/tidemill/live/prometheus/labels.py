"""Whose series it is: the GPU that a series tells of, and who held it, from its labels.

Exporters spell labels differently (`Hostname`, `hostname`; `UUID`, `uuid`, `gpu_uuid`), so they are
compared in small letters. Where a Prometheus does not honour the labels of an exporter
(`honor_labels: false`, the default of the GPU operator's ServiceMonitor), the pod that holds the
GPU is `exported_pod`, and `pod` is the exporter itself.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

_NODE = (
    "hostname", "exported_hostname", "node", "exported_node", "kubernetes_node", "nodename",
    "node_name", "k8s_node_name", "host_name", "host", "instance",
)  # fmt: skip
_UUID = ("uuid", "gpu_uuid")
_INDEX = ("device", "minor_number", "gpu", "gpu_id", "ordinal", "index")
"""`device` is the minor number (`nvidia3`), by which Slurm counts; `gpu` is DCGM's own order."""
_HOLDERS = (
    ("exported_namespace", "exported_pod", "exported_container"),
    ("pod_namespace", "pod_name", "container_name"),  # of older exporters
    ("k8s_namespace_name", "k8s_pod_name", "k8s_container_name"),  # of OpenTelemetry
    ("namespace", "pod", "container"),
)
"""How the pod that holds a GPU is called; but for the first it may be the exporter's own."""
HOST = r"^([^.]+)\.[^0-9].*$"
"""A host with its domain: of `10.0.0.5` and `cn-hangzhou.10.0.0.5` no part is the host."""
_HELD_BY_JOB = ("hpc_job", "jobid", "job_id", "slurm_job_id")
_MODEL = ("modelname", "card_series", "card_model", "name")
_OLD_MIG_UUID = re.compile(r"MIG-(GPU-[^/]+)/(\d+)/\d+$")
"""Of drivers before 470: the GPU, its instance, and the compute instance."""
_NUMBER = re.compile(r"(\d+)$")


class DeviceKey(NamedTuple):
    """A GPU, or a MIG instance of one, as one holder had it."""

    node: str
    uuid: str
    minor: int
    """The number of the device on its node; -1: nobody says."""
    mig: str
    """The GPU instance: its number on its GPU, or its own UUID; empty: the whole GPU."""
    namespace: str
    pod: str
    """Empty: no pod, or nobody says."""
    container: str
    job: str
    """The number of a batch job; empty: none, or nobody says."""
    model: str


def key_of(labels: Mapping[str, str]) -> DeviceKey:
    """The key of a series."""
    low = {name.lower(): value for name, value in labels.items()}
    namespace, pod, container = _pod(low)
    uuid, mig = _uuid_and_mig(low)
    return DeviceKey(
        node_of(low), uuid, _index(low), mig, namespace, pod, container,
        _first(low, _HELD_BY_JOB).strip(), _first(low, _MODEL),
    )  # fmt: skip


def node_of(low: Mapping[str, str]) -> str:
    """The node of a series, by labels in small letters; an address loses its port.

    In a pod without the host's network an exporter takes its own name for that of the host.
    """
    names = [low[name] for name in _NODE if low.get(name)]
    found = next((name for name in names if "exporter" not in name), names[0] if names else "")
    host, colon, port = found.rpartition(":")
    return host.strip("[]") if colon and port.isdecimal() else found


def host_of(node: str) -> str:
    """The name of a node without its domain."""
    return re.sub(HOST, r"\1", node)


def by_host(known: Iterable[str]) -> dict[str, str]:
    """Nodes by their names without a domain; what two of them would be called is none's."""
    names = sorted({*known})
    hosts = Counter(map(host_of, names))
    return {host: name for name in names if hosts[host := host_of(name)] == 1}


def _pod(low: Mapping[str, str]) -> tuple[str, str, str]:
    names = next((names for names in _HOLDERS if names[1] in low), _HOLDERS[-1])
    namespace, pod, container = (low.get(name, "") for name in names)
    is_own = names != _HOLDERS[0] and ("exporter" in pod or "exporter" in container)
    if is_own or not pod:  # the exporter's own pod: nobody holds this GPU, or nobody says who
        return "", "", ""
    return namespace, pod, container


def _index(low: Mapping[str, str]) -> int:
    for name in _INDEX:
        if found := _NUMBER.search(low.get(name, "")):
            return int(found[1])
    return -1


def _uuid_and_mig(low: Mapping[str, str]) -> tuple[str, str]:
    """The UUID, of the GPU where it is known, and the instance; empty: the whole GPU."""
    uuid = _first(low, _UUID)
    partition = low.get("gpu_partition_id", "")  # AMD's: 0 is the whole GPU, or the first part
    mig = low.get("gpu_i_id") or ("" if partition == "0" else partition)
    if old := _OLD_MIG_UUID.match(uuid):
        return old[1], mig or old[2]
    return uuid, mig or (uuid if uuid.startswith("MIG-") else "")


def _first(low: Mapping[str, str], names: tuple[str, ...]) -> str:
    return next((low[name] for name in names if low.get(name)), "")
