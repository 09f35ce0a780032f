"""What nodes are by the labels of the clouds that they stand in: GPUs, their type, how they are cut
and how they are bought. Labels and resources as the clouds' own documentation has them.
"""

from typing import NamedTuple

import pytest

from tests.live.kubernetes import made
from tidemill.live.kubernetes import nodes, parts
from tidemill.live.prices import labels as prices

TYPE = "node.kubernetes.io/instance-type"
GPU = "nvidia.com/gpu"
NEURON = "aws.amazon.com/neuron"


class Is(NamedTuple):
    """What a node is: units of a kind, whole GPUs behind them, and how it is bought."""

    units: int
    kind: str
    whole: int
    terms: str = ""


CLOUDS: dict[str, tuple[dict[str, str], dict[str, str], Is]] = {
    "GKE, spot": (
        {"cloud.google.com/gke-accelerator": "nvidia-h100-80gb", TYPE: "a3-highgpu-8g",
         "cloud.google.com/gke-spot": "true"},
        {GPU: "8"}, Is(8, "H100", 8, "spot"),
    ),
    "GKE, cut": (
        {"cloud.google.com/gke-accelerator": "nvidia-tesla-a100", TYPE: "a2-highgpu-1g",
         "cloud.google.com/gke-gpu-partition-size": "1g.5gb"},
        {GPU: "7"}, Is(7, "1g.5gb of A100", 1),
    ),
    "GKE, shared": (
        {"cloud.google.com/gke-accelerator": "nvidia-tesla-t4", TYPE: "n1-standard-8",
         "cloud.google.com/gke-gpu-sharing-strategy": "time-sharing",
         "cloud.google.com/gke-max-shared-clients-per-gpu": "4"},
        {GPU: "8"}, Is(8, "1/4 of T4", 2),
    ),
    "GKE, TPUs": (
        {"cloud.google.com/gke-tpu-accelerator": "tpu-v6e-slice", TYPE: "ct6e-standard-4t",
         "cloud.google.com/gke-tpu-topology": "4x4"},
        {"google.com/tpu": "4"}, Is(4, "TPU-V6E", 4),
    ),
    "EKS, a managed group": (
        {"eks.amazonaws.com/capacityType": "CAPACITY_BLOCK", TYPE: "p4d.24xlarge"},
        {GPU: "8"}, Is(8, "A100", 8, "reserved"),
    ),
    "EKS, Karpenter": (
        {"karpenter.sh/capacity-type": "on-demand", TYPE: "g5.2xlarge",
         "karpenter.k8s.aws/instance-gpu-name": "a10g"},
        {GPU: "1"}, Is(1, "A10G", 1, "on_demand"),
    ),
    "EKS, auto mode": (
        {"karpenter.sh/capacity-type": "spot", TYPE: "g6e.4xlarge",
         "eks.amazonaws.com/instance-gpu-name": "l40s"},
        {GPU: "1"}, Is(1, "L40S", 1, "spot"),
    ),
    "EKS, Trainium": (
        {TYPE: "trn1.32xlarge"},
        {NEURON: "16", "aws.amazon.com/neurondevice": "16", "aws.amazon.com/neuroncore": "32"},
        Is(16, "TRAINIUM1", 16),
    ),
    "AKS": (
        {"kubernetes.azure.com/scalesetpriority": "spot", TYPE: "Standard_ND96isr_H100_v5",
         "kubernetes.azure.com/accelerator": "nvidia"},
        {GPU: "8"}, Is(8, "H100", 8, "spot"),
    ),
    "OKE": (
        {TYPE: "BM.GPU.H100.8", "oci.oraclecloud.com/oke-is-preemptible": "true"},
        {GPU: "8"}, Is(8, "H100", 8, "spot"),
    ),
    "CoreWeave": ({"gpu.nvidia.com/class": "A100_PCIE_80GB"}, {GPU: "8"}, Is(8, "A100-PCIE", 8)),
    "bare metal": ({"nvidia.com/gpu.product": "NVIDIA-H100-NVL"}, {GPU: "8"}, Is(8, "H100-NVL", 8)),
    "bare metal, shared instances": (
        {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb-SHARED",
         "nvidia.com/gpu.replicas": "2", "nvidia.com/mig.strategy": "single"},
        {GPU: "14"}, Is(14, "1/2 of 1g.10gb of H100", 1),
    ),
    "AMD": (
        {"amd.com/gpu.product-name": "AMD_Instinct_MI300X_OAM"},
        {"amd.com/gpu": "8"}, Is(8, "MI300X", 8),
    ),
    "nobody says": ({TYPE: "g9.huge"}, {GPU: "8"}, Is(8, "", 8)),
}  # fmt: skip


@pytest.mark.parametrize("cloud", CLOUDS)
def test_a_node_is_what_its_cloud_says(cloud: str):
    """Each is counted once, in units of what it really gives out; what nobody says is unknown."""
    labels, amounts, expected = CLOUDS[cloud]
    one = made.node("n1", amounts={GPU: None, **amounts})
    one["metadata"]["labels"] = labels
    node = nodes.read(one)
    (part,) = parts.of_node(node)
    unit = part.unit if isinstance(part, parts.MachinePart) else 1
    terms = prices.terms_in(node.labels)
    assert Is(part.devices, part.gpu_type, int(part.devices * unit), terms) == expected
