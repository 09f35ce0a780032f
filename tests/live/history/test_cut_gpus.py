"""How many GPUs are behind instances that are listed, and how much of one each instance is."""

from fractions import Fraction
from pathlib import Path

import pytest

from tests.ledger.sums import amounts
from tests.live.kubernetes.made import node, pod
from tests.live.kubernetes.test_import import kept
from tests.live.slurm.test_nodes import JOBS, told
from tidemill.ledger.buckets import Bucket
from tidemill.live.history import cut_gpus


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        ({}, 0),
        ({"1g.10gb": 7}, 1),
        ({"1g.10gb": 8}, 2),
        ({"1g.10gb": 14}, 2),
        ({"3g.40gb": 1, "1g.10gb": 4}, 1),
        ({"3g.40gb": 3}, 2),
        ({"4g.40gb": 2}, 2),
    ],
)
def test_as_few_gpus_as_can_be_cut_so(numbers: dict[str, int], expected: int):
    """By the memory of all, and by how many of each profile an H100 has at most."""
    assert cut_gpus.fewest("H100", numbers) == expected


def test_parts_are_all_of_what_they_are_cut_from():
    """Seven of an eighth are a GPU; parts of several sizes divide two by their sizes."""
    assert cut_gpus.behind({"a": Fraction(7, 8)}, Fraction(1)) == {"a": 1}
    sizes = {"a": Fraction(1), "b": Fraction(1, 2)}
    assert cut_gpus.behind(sizes, Fraction(2)) == {"a": Fraction(4, 3), "b": Fraction(2, 3)}
    assert cut_gpus.behind({}, Fraction(2)) == {}


@pytest.mark.parametrize(
    ("numbers", "paid", "share"),
    [
        ({"1g.10gb": 7}, 1, 1 / 7),
        ({"1g.10gb": 8}, 2, 2 / 8),
        ({"1g.10gb": 14}, 2, 1 / 7),
        ({"1g.10gb": 4, "3g.40gb": 1}, 1, 1 / 8),
    ],
)
def test_slurm_and_kubernetes_book_one_share(
    tmp_path: Path, numbers: dict[str, int], paid: int, share: float
):
    """The same machine, and one `1g.10gb` of it held: as much is paid, held and not held."""
    gres = ",".join(f"gpu:h100_{profile}:{count}" for profile, count in numbers.items())
    jobs = JOBS.replace("gres/gpu:h100=1", "gres/gpu:h100_1g.10gb=1")
    slurm = told(tmp_path, f"Gres={gres} State=MIXED", jobs=jobs).hours
    resources = {f"nvidia.com/mig-{profile}": str(count) for profile, count in numbers.items()}
    machine = node("n0", amounts={"nvidia.com/gpu": None, **resources})
    run = kept(machine, pod("a", {"nvidia.com/mig-1g.10gb": 1}, on="n0"))
    found = {Bucket(b): milli for (b,), milli in amounts(run.statement, "bucket").items()}
    for hours in (slurm, found):
        assert Bucket.STRANDED not in hours
        whole = sum(hours.values())
        assert hours[Bucket.UNKNOWN] / whole == pytest.approx(share / paid)
    assert run.statement.total().paid_milli_ms == pytest.approx(paid * 1000 * 3_600_000, abs=2)
    assert sum(slurm.values()) == pytest.approx(4 * paid)
