"""Worked examples of sharing, reproduced: a device that is full on one axis and empty on others."""

import pytest

from tidemill.model.errors import SpecError
from tidemill.units.catalogue.book import Catalogue
from tidemill.units.sharing import slivers, tenants

H100 = Catalogue().part("h100")


def test_one_decoder_fills_one_axis_of_three():
    """13 B parameters in fp16 at 128 tokens/s on an H100: 32.5 % of memory, 0.34 % of compute,
    99 % of bandwidth. The device looks two thirds empty, and has no bandwidth to give.
    """
    compute, bandwidth, memory = tenants.used_by_decoding(26, 128, H100)
    assert memory == 0.325
    assert round(compute, 4) == 0.0034
    assert round(bandwidth, 2) == 0.99
    sliver = slivers.sliver([tenants.decoding("llm", 26, 128, H100)], H100)
    assert sliver.full == ("bandwidth",)
    assert sliver.left.memory == pytest.approx(0.675)
    assert not sliver.is_small


def test_four_tenants_that_fit_in_memory_do_not_fit_in_bandwidth():
    """Four models of 6 GB at 140 tokens/s take 24 of 80 GB, but 3.36 of 3.35 TB/s: alone, one of
    them could read its weights 558 times a second.
    """
    each = [tenants.decoding(str(i), 6, 140, H100) for i in range(4)]
    assert 6 * 140 / 1000 == 0.84
    used = slivers.used(each, H100)
    assert used.memory == pytest.approx(0.3)
    assert used.bandwidth * H100.memory_tb_s == pytest.approx(3.36)
    assert used.bandwidth > 1
    assert round(tenants.most_tokens_per_s(6, H100)) == 558
    assert slivers.fitting(each[:3], each[3:], H100) == []
    assert slivers.fitting(each[:2], each[3:], H100) == each[3:]


def test_more_tokens_than_the_part_can_read_are_refused():
    """A tenant that would need more bandwidth than there is alone says how much there is."""
    with pytest.raises(SpecError, match=r"would read 5\.20 TB/s") as refused:
        tenants.decoding("llm", 26, 200, H100)
    assert "at most 129 tokens" in refused.value.hint


@pytest.mark.parametrize(
    "text", ["", "llm", "26gb@", "@", "0gb@1", "nangb@1", "compute=1",
             "compute=2,bandwidth=0,memory=1", "compute=x,bandwidth=0,memory=1",
             "compute=0,bandwidth=0,memory=-1", "compute=nan,bandwidth=0,memory=1"]
)  # fmt: skip
def test_what_is_no_tenant_is_refused(text: str):
    """Whatever is not a tenant is refused with how one is written."""
    with pytest.raises(SpecError) as refused:
        tenants.parsed(text, H100)
    assert "memory=26" in refused.value.hint


def test_tenants_as_people_write_them():
    """Shares as they are, or a model that decodes."""
    found = tenants.parsed("compute=0.2,bandwidth=0.9,memory=26", H100)
    assert (found.compute, found.bandwidth, found.memory_gb) == (0.2, 0.9, 26)
    assert tenants.parsed("26gb@128", H100).bandwidth == pytest.approx(0.9934, abs=1e-4)
