"""Whose series it is: the GPU that a series tells of, and who held it, from its labels.

Exporters spell labels differently (`Hostname`, `hostname`; `UUID`, `uuid`, `gpu_uuid`), so they are
compared in small letters. Where a Prometheus does not honour the labels of an exporter
(`honor_labels: false`, the default of the GPU operator's ServiceMonitor), the pod that holds the
GPU is `exported_pod`, and `pod` is the exporter itself.
"""

import re
from collections.abc import Mapping
from typing import NamedTuple

_NODE = ("hostname", "exported_hostname", "node", "kubernetes_node", "nodename", "host", "instance")
_UUID = ("uuid", "gpu_uuid")
_INDEX = ("device", "minor_number", "gpu", "gpu_id", "ordinal", "index")
"""`device` is the minor number (`nvidia3`), by which Slurm counts; `gpu` is DCGM's own order."""
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
    """The node of a series, by labels in small letters; an address loses its port."""
    found = _first(low, _NODE)
    host, colon, port = found.rpartition(":")
    return host.strip("[]") if colon and port.isdecimal() else found


def _pod(low: Mapping[str, str]) -> tuple[str, str, str]:
    if "exported_pod" in low:
        names = ("exported_namespace", "exported_pod", "exported_container")
    elif "exporter" in low.get("pod", "") or "exporter" in low.get("container", ""):
        return "", "", ""  # the exporter's own pod: nobody holds this GPU, or nobody says who
    else:
        names = ("namespace", "pod", "container")
    namespace, pod, container = (low.get(name, "") for name in names)
    return (namespace, pod, container) if pod else ("", "", "")


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
