"""Whose series it is, by the labels that exporters, scrapers and clouds really write."""

from collections.abc import Mapping

import pytest

from tidemill.live.prometheus import labels

DCGM = {"UUID": "GPU-1", "device": "nvidia3", "gpu": "3", "instance": "10.0.0.5:9400"}
HOLDS = ("gpu01", "ml", "train-0", 3)


@pytest.mark.parametrize(
    "told",
    [
        {"Hostname": "gpu01", "namespace": "ml", "pod": "train-0", "container": "c"},
        {"Hostname": "gpu01", "namespace": "gpu-operator", "pod": "nvidia-dcgm-exporter-x",
         "exported_namespace": "ml", "exported_pod": "train-0", "exported_container": "c"},
        {"Hostname": "nvidia-dcgm-exporter-x", "node": "gpu01", "namespace": "ml",
         "pod": "train-0"},
        {"Hostname": "gpu01", "pod_namespace": "ml", "pod_name": "train-0", "container_name": "c",
         "pod": "dcgm-exporter-x", "namespace": "monitoring"},
        {"k8s_node_name": "gpu01", "k8s_namespace_name": "ml", "k8s_pod_name": "train-0"},
    ],
)  # fmt: skip
def test_a_series_is_of_the_pod_and_not_of_the_exporter(told: Mapping[str, str]):
    """With and without honoured labels, of older exporters, and through OpenTelemetry."""
    key = labels.key_of({**DCGM, **told})
    assert (key.node, key.namespace, key.pod, key.minor) == HOLDS


@pytest.mark.parametrize(
    "told",
    [
        {"pod": "nvidia-dcgm-exporter-x", "namespace": "gpu-operator"},
        {"pod_name": "dcgm-exporter-x", "pod_namespace": "monitoring"},
        {"pod": "x", "namespace": "kube-amd-gpu", "container": "metrics-exporter-container"},
        {},
    ],
)
def test_nobody_holds_a_gpu_of_which_the_exporter_alone_is_told(told: Mapping[str, str]):
    """Its own pod is no job."""
    key = labels.key_of({**DCGM, **told})
    assert (key.namespace, key.pod, key.node) == ("", "", "10.0.0.5")


@pytest.mark.parametrize(
    ("node", "host"),
    [
        ("gpu01.cluster.local", "gpu01"),
        ("ip-10-0-0-5.ec2.internal", "ip-10-0-0-5"),
        ("10.0.0.5", "10.0.0.5"),
        ("cn-hangzhou.10.0.0.5", "cn-hangzhou.10.0.0.5"),
    ],
)
def test_an_address_is_no_host_with_a_domain(node: str, host: str):
    """Some clouds call nodes by their addresses: one part of it is the name of all of them."""
    assert labels.host_of(node) == host


def test_a_host_that_two_nodes_have_is_neither():
    """Of clusters with equal names and other domains."""
    known = ("gpu01.a.net", "gpu01.b.net", "gpu02.a.net", "10.0.0.5", "10.0.0.6")
    assert labels.by_host(known) == {
        "gpu02": "gpu02.a.net", "10.0.0.5": "10.0.0.5", "10.0.0.6": "10.0.0.6",
    }  # fmt: skip
