"""What the labels of a node say of what it costs: instance type, region, how it is bought."""

import re
from collections.abc import Mapping
from fnmatch import fnmatchcase

from tidemill.live.history.rows import SeenNode
from tidemill.model.rows import CLUSTER
from tidemill.model.states import Terms

INSTANCE_TYPE = "node.kubernetes.io/instance-type"
REGION = "topology.kubernetes.io/region"
PROVIDER_ID = "tidemill/provider-id"
"""Where a source puts the provider's own name of a machine, such as ``aws:///us-east-1a/i-0ab``."""

_INSTANCE_TYPES = (INSTANCE_TYPE, "beta.kubernetes.io/instance-type")
_REGIONS = (REGION, "failure-domain.beta.kubernetes.io/region")
_NAMES = (PROVIDER_ID, "kubernetes.io/hostname", "alpha.eksctl.io/instance-id")
_CAPACITY = (
    "karpenter.sh/capacity-type", "eks.amazonaws.com/capacityType", "node.kubernetes.io/capacity",
    "kubernetes.azure.com/scalesetpriority", "cloud.google.com/gke-provisioning",
)  # fmt: skip
_SPOT_FLAGS = (
    "cloud.google.com/gke-spot", "cloud.google.com/gke-preemptible",
    "oci.oraclecloud.com/oke-is-preemptible",
)  # fmt: skip
TERMS = {
    "ondemand": Terms.ON_DEMAND.value, "payasyougo": Terms.ON_DEMAND.value,
    "payg": Terms.ON_DEMAND.value, "standard": Terms.ON_DEMAND.value,
    "regular": Terms.ON_DEMAND.value, "spot": Terms.SPOT.value, "preemptible": Terms.SPOT.value,
    "dynamic": Terms.SPOT.value, "reserved": Terms.RESERVED.value,
    "committed": Terms.RESERVED.value, "capacityblock": Terms.RESERVED.value,
}  # fmt: skip
"""How people say that something is bought."""


_SCALE_SET = re.compile(r"/virtualmachinescalesets/([^/]+)")
KEYS = (*_INSTANCE_TYPES, *_REGIONS, *_NAMES, *_CAPACITY, *_SPOT_FLAGS)
"""All labels that say something of what a node costs."""


def plain(text: str) -> str:
    """A name as it is compared: ``Standard_ND96isr_H100_v5`` is ``nd96isr-h100-v5``."""
    return text.strip().lower().replace("_", "-").replace(" ", "-").removeprefix("standard-")


def word(text: str) -> str:
    """A word as it is compared: without case, blanks and signs."""
    return "".join(c for c in text.lower() if c.isalnum())


def tail(name: str) -> str:
    """The last part of a provider's name of a thing: ``arn:…:instance/i-0ab`` is ``i-0ab``.

    A machine of a scale set of Azure is called by its number there, so its set is part of its name.
    """
    path = name.strip().rstrip("/").lower()
    last = path.rsplit("/", 1)[-1]
    of = scale_set(path)
    return last if last == of or not of else f"{of}_{last}"


def scale_set(name: str) -> str:
    """The scale set of Azure that a thing is, or is a machine of; "": none."""
    found = _SCALE_SET.search(name.lower())
    return found[1] if found else ""


def instance_type(node: SeenNode) -> str:
    """What the provider calls such a machine; "": nobody says."""
    return node.box or instance_type_in(dict(node.labels))


def instance_type_in(said: Mapping[str, str]) -> str:
    """The same of labels by themselves."""
    return _first(said, _INSTANCE_TYPES)


def region(node: SeenNode) -> str:
    """Where it stands; "": nobody says."""
    return _first(dict(node.labels), _REGIONS)


def names(node: SeenNode) -> frozenset[str]:
    """What it is called, also by its provider; of several clusters, `cluster/node` and `node`."""
    said = dict(node.labels)
    tails = (tail(name) for name in (node.name, *map(said.get, _NAMES)) if name)
    of = scale_set(said.get(PROVIDER_ID, ""))
    return frozenset((node.name.lower(), *tails, *([of] if of else ())))


def named_in(told: str) -> str:
    """A machine as a table names it: `cluster/node` as it is, of longer names the last part."""
    name = told.strip().lower()
    return name if name.count("/") == 1 and ":" not in name else tail(name)


def is_called(node: SeenNode, told: str) -> bool:
    """Whether a table means a node; `*` stands for anything, as in names of spares."""
    is_of_several = CLUSTER in dict(node.labels)
    name = told if is_of_several else tail(told)
    own = names(node)
    return name in own or ("*" in name and any(fnmatchcase(one, name) for one in own))


def terms(node: SeenNode) -> str:
    """How it is bought; "": nobody says."""
    return node.terms or terms_in(dict(node.labels))


def terms_in(said: Mapping[str, str]) -> str:
    """The same of labels by themselves."""
    if any(said.get(key, "").lower() == "true" for key in _SPOT_FLAGS):
        return Terms.SPOT.value
    return TERMS.get(word(_first(said, _CAPACITY)), "")


def _first(said: Mapping[str, str], keys: tuple[str, ...]) -> str:
    return next((said[key] for key in keys if said.get(key)), "")
