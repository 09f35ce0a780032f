"""Whose accelerators a kind is: what is asked of one vendor's is not run on another's."""

import pytest

from tidemill.units import capability


@pytest.mark.parametrize(
    ("kind", "vendor"),
    [("H100", "NVIDIA"), ("1/10 OF A10G", "NVIDIA"), ("nvidia.com/mig-7g.80gb", "NVIDIA"),
     ("MI300X", "AMD"), ("TPU-V5P", "Google"), ("habana.ai/gaudi", "Intel"), ("GPU", "")],
)  # fmt: skip
def test_a_kind_has_a_vendor_by_its_name_or_its_resource(kind: str, vendor: str):
    """Unknown where neither the catalogue nor the domain of a resource says it."""
    assert capability.vendor(kind) == vendor


def test_programs_stay_with_their_vendor():
    """What nobody knows may be another's, and is no substitute where that matters."""
    asked = ["nvidia.com/mig-7g.80gb"]
    assert capability.may_replace(asked, "1/10 OF A10G", is_strict=True)
    assert not capability.may_replace(asked, "MI300X", is_strict=False)
    assert not capability.may_replace(asked, "GPU", is_strict=True)
    assert capability.may_replace(asked, "GPU", is_strict=False)
    assert capability.may_replace([], "MI300X", is_strict=True)
