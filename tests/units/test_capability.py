"""Capability: unlike accelerators are added up by what they can do, and unknown is not zero."""

import pytest

from tidemill.units import capability


@pytest.mark.parametrize(
    ("kind", "gflops"),
    [
        ("H100", 989_000),
        ("h100", 989_000),
        ("NVIDIA-H100-80GB-HBM3", 989_000),
        ("h100_pcie", 756_000),
        ("NVIDIA H100 NVL", 835_000),
        ("NVIDIA-A100-SXM4-80GB", 312_000),
        ("Tesla-V100-SXM2-16GB", 125_000),
        ("tpu-v5p-8", 459_000),
    ],
)
def test_kinds_by_the_names_people_use(kind: str, gflops: int):
    """A kind is found by its name in either case, with the maker before it or a variant after."""
    assert capability.gflops(kind) == gflops


@pytest.mark.parametrize("kind", ["", "H1000", "A10G", "X1", "quantum"])
def test_a_kind_that_is_not_in_the_table_is_unknown(kind: str):
    """What merely begins like a known name is another thing: unknown, not zero and not close."""
    assert capability.gflops(kind) is None


def test_the_fleet_of_the_docstring():
    """256 A100 and 768 H100 are 849 H100 equivalents."""
    a100, h100 = capability.gflops("A100"), capability.gflops("H100")
    assert a100 is not None
    assert h100 == capability.REFERENCE_GFLOPS
    assert round((256 * a100 + 768 * h100) / h100) == 849


def test_the_table_is_sane():
    """Every figure is between a P100 and ten times an H100, and names are in capitals."""
    for name, gflops in capability.BF16_DENSE_GFLOPS.items():
        assert name == name.upper()
        assert 21_000 <= gflops <= 9_890_000


def test_an_instance_has_its_share_of_the_compute_slices():
    """An H100 has seven slices; of what is in no catalogue nothing is known."""
    assert capability.gflops("H100_1G.10GB") == capability.BF16_DENSE_GFLOPS["H100"] // 7
    assert capability.gflops("h100_7g.80gb") == capability.BF16_DENSE_GFLOPS["H100"]
    assert capability.gflops("FOO_1G.10GB") is None
