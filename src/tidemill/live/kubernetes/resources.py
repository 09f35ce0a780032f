"""Which resources of a node or a container are accelerators, and in which form they are counted.

Whole devices, parts of a device that several pods share (time-slicing, MPS: `…gpu.shared`), and MIG
instances (`nvidia.com/mig-1g.10gb`). Resources that nobody knows here are no accelerators.
"""

import math
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from tidemill.live.kubernetes import fields
from tidemill.live.kubernetes.fields import MalformedObjectError
from tidemill.live.prices import labels as prices
from tidemill.model.measures import MOST_OF_HOST
from tidemill.units.catalogue.book import Catalogue

SHARED = ".shared"
_MIG = re.compile(r"nvidia\.com/mig-(\d+g\.\d+gb(?:\.me)?)(?:\.shared)?")
WHOLE = (
    "nvidia.com/gpu", "nvidia.com/pgpu", "amd.com/gpu", "google.com/tpu", "aws.amazon.com/neuron",
    "aws.amazon.com/neurondevice", "habana.ai/gaudi", "gpu.intel.com/i915", "gpu.intel.com/xe",
    "gpu.intel.com/gaudi",
)  # fmt: skip
"""Resource names that count whole accelerators."""
UNCOUNTED = ("aws.amazon.com/neuroncore", "nvidia.com/vgpu")
"""Parts of accelerators whose share of the whole nobody says."""
CLAIMED = "resource claims"
"""Instead of a resource name: devices that DRA allocates."""
CUT = f"{CLAIMED}/"
"""Before a MIG profile: an instance of it, which a whole device is cut for."""
BY_CLAIM = "tidemill/devices-by-claim"
"""The label, in the books, of nodes whose whole devices are given out by claims alone."""
MOST_DEVICES = 10_000


class GpuRequest(NamedTuple):
    """What a pod requests of accelerators: so many of one resource."""

    resource: str
    each: int

    @property
    def profile(self) -> str:
        """The MIG profile; "": whole devices, or shares of them."""
        return _profile(self.resource)


@lru_cache(1024)
def _profile(resource: str) -> str:
    if is_cut_by_claim(resource):
        return resource.removeprefix(CUT)
    found = _MIG.fullmatch(resource)
    return found[1].replace(".me", "+me") if found else ""


def mig_name(profile: str) -> str:
    """The resource that instances of a profile are; "": none is called so."""
    name = f"nvidia.com/mig-{profile.replace('+me', '.me')}"
    return name if _MIG.fullmatch(name) else ""


def cut_by_claim(profile: str) -> str:
    """What a claim for an instance is counted as, where GPUs are cut for it; "": of no profile."""
    return f"{CUT}{profile}" if mig_name(profile) else ""


def is_cut_by_claim(resource: str) -> bool:
    """Whether a resource is instances that GPUs are cut into when claims ask for them."""
    return resource.startswith(CUT)


def is_accelerator(resource: str) -> bool:
    """Whether a resource counts accelerators, or known parts of them."""
    return (
        resource in WHOLE
        or _MIG.fullmatch(resource) is not None
        or (resource.removesuffix(SHARED) in WHOLE)
    )


def is_whole_name(resource: str) -> bool:
    """Whether a resource is called as whole accelerators are."""
    return resource in WHOLE or resource == CLAIMED


_SAME = {"aws.amazon.com/neurondevice": "aws.amazon.com/neuron"}
"""Older names, which nodes advertise beside the one that counts the same devices."""


def accelerators(amounts: Mapping[str, float]) -> dict[str, int]:
    """The accelerators in a map of quantities, without zeros."""
    found = dict[str, int]()
    for resource, amount in amounts.items():
        if is_accelerator(resource):
            if amount < 0 or amount != int(amount) or amount > MOST_DEVICES:
                raise MalformedObjectError(f"`{resource}` is {shown(amount)}: no number of devices")
            if amount:
                name = _SAME.get(resource, resource)
                found[name] = max(found.get(name, 0), int(amount))
    return found


def shown(amount: float) -> str:
    """A quantity as a number, whole ones with all of their digits."""
    whole = f"{amount:.0f}" if amount == int(amount) else f"{amount:.12g}"
    return f"{whole} or more" if amount >= fields.LARGEST else whole


def cpu_milli(cpus: float) -> int:
    """CPUs in thousandths, as the books count them."""
    return max(0, min(round(1000 * cpus), MOST_OF_HOST))


def memory_mib(size_bytes: float) -> int:
    """Memory in MiB, as the books count it."""
    return max(0, min(int(size_bytes / 2**20), MOST_OF_HOST))


def uncounted(amounts: Mapping[str, float]) -> str:
    """A resource that is a part of an accelerator of which nobody says how large; "": none."""
    return next((name for name in UNCOUNTED if amounts.get(name, 0) > 0), "")


def others(amounts: Mapping[str, float]) -> tuple[tuple[str, int], ...]:
    """Resources that a plug-in of the nodes gives out, or huge pages, and how much of them."""
    return tuple(
        sorted(
            (name, math.ceil(amount)) for name, amount in amounts.items()
            if amount > 0 and ("/" in name or name.startswith("hugepages-"))
            and not is_accelerator(name) and name not in UNCOUNTED
        )
    )  # fmt: skip


_BY_LABEL = {
    "amd.com/gpu.product-name": "", "beta.amd.com/gpu.product-name": "",
    "cloud.google.com/gke-accelerator": "", "gpu.nvidia.com/class": "",
    "k8s.amazonaws.com/accelerator": "", "node.coreweave.cloud/class": "",
    "karpenter.k8s.aws/instance-gpu-name": "", "eks.amazonaws.com/instance-gpu-name": "",
    "karpenter.k8s.aws/instance-accelerator-name": "",
    "eks.amazonaws.com/instance-accelerator-name": "", "karpenter.azure.com/sku-gpu-name": "",
}  # fmt: skip
"""Labels with the name of a GPU, after NVIDIA's own (`nvidia.com/gpu.product`)."""
PRODUCT = "nvidia.com/gpu.product"
_TPUS = {
    "tpu-v4-podslice": "tpu-v4", "tpu-v5-lite-podslice": "tpu-v5e", "tpu-v5-lite-device": "tpu-v5e",
    "tpu-v5p-slice": "tpu-v5p", "tpu-v6e-slice": "tpu-v6e", "tpu7x": "tpu-v7x",
}  # fmt: skip
"""What GKE calls slices of TPUs (`cloud.google.com/gke-tpu-accelerator`)."""
_CUT_BY_GKE = "cloud.google.com/gke-gpu-partition-size"
"""How GKE says that each `nvidia.com/gpu` of a node is a MIG instance."""
_SHARED_BY_GKE = "cloud.google.com/gke-max-shared-clients-per-gpu"
"""By how many clients each `nvidia.com/gpu` of a node may be had, with GKE's own sharing."""
_MIG_PRODUCT = re.compile(r"(.*)-MIG-(\d+g\.\d+gb)(\.me)?$", re.IGNORECASE)


class ProductName(NamedTuple):
    """What a label says of a node's accelerators."""

    gpu_type: str
    profile: str = ""
    """With MIG in its *single* strategy: the profile that each of its `nvidia.com/gpu` is."""


def product(labels: Mapping[str, str], box: str) -> ProductName:
    """The GPU type of a node, by its labels or by its instance type; "": nobody says."""
    told = labels.get(PRODUCT, "").removesuffix("-SHARED")
    cut = _MIG_PRODUCT.match(told)
    profile = ""
    if cut:
        told, profile = cut[1], cut[2] + ("+me" if cut[3] else "")
    tpu = labels.get("cloud.google.com/gke-tpu-accelerator", "")
    profile = profile or labels.get(_CUT_BY_GKE, "")
    told = told or _TPUS.get(tpu, tpu) or next(filter(None, map(labels.get, _BY_LABEL)), "") or ""
    if told:
        return ProductName(short_name(told), profile)
    found = Catalogue().find_box(prices.plain(box)) if box else None
    return ProductName(short_name(found.part) if found else "", profile)


def short_name(told: str) -> str:
    """What people call a GPU (`H100`) that a driver calls `NVIDIA-H100-80GB-HBM3`."""
    found = Catalogue().find(told)
    if found is not None and found.names:
        return found.names[0].upper()
    return told.removeprefix("NVIDIA-").removeprefix("Tesla-").upper()[:100]


def box_size(box: str) -> int:
    """How many accelerators an instance type has, if the catalogue knows it; else 0."""
    found = Catalogue().boxes.get(prices.plain(box))
    return found.count if found is not None else 0


def replicas(labels: Mapping[str, str], resource: str) -> int:
    """Into how many each unit of a resource is divided (time-slicing, MPS); 1: it is whole."""
    told = labels.get(f"{resource.removesuffix(SHARED)}.replicas", "")
    if resource == "nvidia.com/gpu":
        told = told or labels.get(_SHARED_BY_GKE, "")
    return max(int(told), 1) if told.isdecimal() and len(told) < 6 else 1
