"""MIG: what may sit where, which layouts there are, and which is best for a mix."""

from collections.abc import Mapping
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidemill.model.errors import SpecError
from tidemill.units.mig import best, geometry, layouts, relayout
from tidemill.units.mig.layouts import Instance, Pattern
from tidemill.units.mig.profiles import GEOMETRIES, Geometry

EIGHT_WIDE = [row for row in GEOMETRIES if row.memory == 8]
H100 = geometry.known("h100")


@pytest.mark.parametrize("part", EIGHT_WIDE, ids=lambda row: row.key)
def test_nineteen_maximal_layouts(part: Geometry):
    """Without double-memory 1g and media instances there are 19 maximal placements.

    As NVIDIA's guide counts for A100 and H100.
    """
    rows = [row for row in part.profiles if row.name in _plain(part)]
    every = [geometry.claim(row, start) for row in rows for start in row.starts]
    masks = [layouts.mask_of(part, found) for found in layouts.legal(part, _plain(part))]
    assert sum(all(one & mask for one in every) for mask in masks) == 19


@pytest.mark.parametrize("part", GEOMETRIES, ids=lambda row: row.key)
def test_the_memory_axis_alone_decides(part: Geometry):
    """No layout that the memory axis allows takes more compute slices than the part has."""
    assert max(layouts.compute_of(part, layout) for layout in layouts.legal(part)) == part.compute


@pytest.mark.parametrize("part", GEOMETRIES, ids=lambda row: row.key)
def test_as_many_instances_as_listed(part: Geometry):
    """Of each profile alone as many fit on an empty device as the driver lists."""
    made = geometry.tables(part)
    for p, row in enumerate(part.profiles):
        assert made.most[p][0] == row.most, row.name


@pytest.mark.parametrize("part", GEOMETRIES, ids=lambda row: row.key)
def test_every_row_says_where_it_is_from(part: Geometry):
    """Each profile has a source, and its share of a device is a whole number of milli."""
    for row in part.profiles:
        assert row.source
        assert row.memory * 1000 % part.memory == 0


def test_the_h200_as_its_driver_lists_it():
    """Instances, multiprocessors and starts as `nvidia-smi mig -lgip` and `-lgipp` print them.

    On an H200 SXM under driver 580.159.04, 2026-11.
    """
    rows = {row.name: (row.most, row.sms, row.starts) for row in geometry.known("H200").profiles}
    any_of_seven = (0, 1, 2, 3, 4, 5, 6)
    assert rows == {
        "1g.18gb": (7, 16, any_of_seven),
        "1g.18gb+me": (1, 16, any_of_seven),
        "1g.35gb": (4, 26, (0, 2, 4, 6)),
        "2g.35gb": (3, 32, (0, 2, 4)),
        "3g.71gb": (2, 60, (0, 4)),
        "4g.71gb": (1, 64, (0,)),
        "7g.141gb": (1, 132, (0,)),
    }


@pytest.mark.parametrize(
    ("names", "fits"),
    [
        (["3g.40gb", "3g.40gb", "1g.10gb"], False),
        (["3g.40gb", *["1g.10gb"] * 5], False),
        (["4g.40gb", "3g.40gb"], True),
        (["3g.40gb", *["1g.10gb"] * 4], True),
        (["4g.40gb", *["1g.10gb"] * 3], True),
        (["2g.20gb"] * 3 + ["1g.10gb"], True),
        (["2g.20gb"] * 4, False),
        (["1g.10gb+me", "1g.10gb+me"], False),
    ],
)
def test_what_fits_on_an_h100(names: list[str], fits: bool):
    """A 4g leaves room for a 3g; two 3g leave none; five 1g beside a 3g are one too many."""
    wanted = tuple(names.count(row.name) for row in H100.profiles)
    assert (wanted in layouts.patterns(H100)) == fits


@pytest.mark.parametrize(
    ("layout", "lost"),
    [
        ([("1g.10gb", i) for i in range(7)], (1, 0, 0)),
        ([("3g.40gb", 0), ("3g.40gb", 4)], (0, 1, 0)),
        ([("1g.20gb", 0), ("1g.20gb", 2), ("1g.20gb", 4), ("1g.20gb", 6)], (0, 3, 0)),
        ([("2g.20gb", 0)], (0, 0, 6)),
        ([("7g.80gb", 0)], (0, 0, 0)),
    ],
)
def test_what_a_layout_strands(layout: list[tuple[str, int]], lost: tuple[int, int, int]):
    """Slice 7 beside seven 1g; a compute slice beside two 3g; three beside four double 1g."""
    assert layouts.waste(H100, tuple(Instance(*at) for at in layout)) == lost


@pytest.mark.parametrize(
    ("kind", "key"),
    [
        ("H100", "h100-80"), ("NVIDIA-H100-80GB-HBM3", "h100-80"), ("h100-nvl-94", "h100-94"),
        ("NVIDIA-A100-SXM4-80GB", "a100-80"), ("a100", "a100-40"), ("H200", "h200-141"),
        ("A30", "a30"), ("B200", "b200-180"), ("GH200", "h100-96"),
    ],
)  # fmt: skip
def test_parts_by_the_names_people_use(kind: str, key: str):
    """A part is found by its kind, its driver's name or its catalogue key."""
    found = geometry.of_kind(kind)
    assert found is not None
    assert found.key == key


@pytest.mark.parametrize("kind", ["L40S", "MI300X", "TPU-V5P", "H1000", ""])
def test_parts_that_do_not_divide(kind: str):
    """What cannot be partitioned, or is not known, has no geometry."""
    assert geometry.of_kind(kind) is None


def test_a_part_without_mig_is_refused_with_those_that_have_it():
    """Asking an L40S for its profiles names the parts that have some."""
    with pytest.raises(SpecError, match="l40s-48` cannot be partitioned") as refusal:
        geometry.known("l40s")
    assert "`h100-80`" in refusal.value.hint


@pytest.mark.parametrize(
    ("asked", "near"),
    [("1g.18gb", "1g.20gb"), ("3g.80gb", "7g.80gb"), ("2g.10gb", "2g.20gb"), ("1G.5GB", "1g.10gb")],
)
def test_a_profile_that_a_part_lacks(asked: str, near: str):
    """The refusal says which profiles there are, and the smallest that would do."""
    with pytest.raises(SpecError, match=r"`h100-80` has no MIG profile .* `4g.40gb`") as refusal:
        geometry.profile(H100, asked)
    assert near in refusal.value.hint


def test_the_best_start_leaves_most_room():
    """On an empty device a 1g goes to slice 6, where only the double 1g could also have begun."""
    made = geometry.tables(H100)
    assert made.best[0][0] == 1 << 6
    assert made.best[0][0x7F] == 0


@given(st.data())
@settings(max_examples=200)
def test_best_start_is_legal_or_there_is_none(data: st.DataObject):
    """In every state the table gives a legal free start exactly when there is one."""
    part = data.draw(st.sampled_from(GEOMETRIES))
    made, state = geometry.tables(part), data.draw(st.integers(0, geometry.STATES - 1))
    for p, row in enumerate(part.profiles):
        free = [geometry.claim(row, at) for at in row.starts]
        free = [mask for mask in free if not mask & state]
        assert (made.best[p][state] in free) if free else made.best[p][state] == 0


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_best_on_one_device_is_that_of_brute_force(data: st.DataObject):
    """No legal layout serves more slices of a random mix than the one that is chosen."""
    part = data.draw(st.sampled_from(GEOMETRIES))
    mix = data.draw(_mixes(part, 9))
    layout, left_out = best.one(part, mix)
    served = {name: count - left_out.get(name, 0) for name, count in mix.items()}
    assert {row: n for row, n in served.items() if n} == {
        name: [at.profile for at in layout].count(name) for name in {at.profile for at in layout}
    }
    assert _slices(part, served) == max(
        _memory(part, legal) for legal in layouts.legal(part) if _is_within(legal, mix)
    )


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_a_small_fleet_is_divided_as_by_brute_force(data: st.DataObject):
    """On two or three devices the division serves all but one slice of the best, at the least.

    (It is the best in all mixes that were tried; the bound leaves room for one that was not.)
    """
    part = data.draw(st.sampled_from([H100, geometry.known("a30")]))
    mix, devices = data.draw(_mixes(part, 4)), data.draw(st.integers(2, 3))
    found = best.fleet(part, mix, devices)
    most = _brute(part, best.demand(part, mix), devices)
    assert most - 1 <= found.served[0] <= most <= found.at_most
    assert sum(count for _, count in found.devices) == devices
    assert _slices(part, mix) == found.served[0] + _slices(part, found.left_out)


@given(st.data())
@settings(max_examples=25, deadline=None)
def test_a_larger_fleet_is_within_one_device_of_the_bound(data: st.DataObject):
    """Up to forty devices: what is served differs from what nothing exceeds by 8 slices at most."""
    mix, devices = data.draw(_mixes(H100, 60)), data.draw(st.integers(4, 40))
    found = best.fleet(H100, mix, devices)
    assert found.at_most - 8 <= found.served[0] <= found.at_most


def test_a_thousand_devices():
    """A large mix, for which compute is short, is divided within one device of the bound."""
    found = best.fleet(H100, {"1g.10gb": 3000, "2g.20gb": 1000, "3g.40gb": 700}, 1000)
    assert found.at_most - 8 <= found.served[0] <= found.at_most < 7800
    assert sum(count for _, count in found.devices) == 1000


def test_a_change_of_layout_drains_only_who_is_in_the_way():
    """For a 4g beside a 1g, the 3g on the same slices has to go and the 1g stays where it is."""
    now = (Instance("3g.40gb", 0), Instance("1g.10gb", 4))
    tenants = {
        now[0]: relayout.InstanceTenant(60_000, 5_000),
        now[1]: relayout.InstanceTenant(1, 1),
    }
    wanted = best.demand(H100, {"4g.40gb": 1, "1g.10gb": 1})
    change = relayout.cheapest(H100, now, wanted, tenants)
    assert change is not None
    assert (change.kept, change.drained) == ((now[1],), (now[0],))
    assert change.made == (Instance("4g.40gb", 0),)
    assert (change.lost_ms, change.lost_milli_ms) == (65_000, 65_000 * 500)
    assert change.seconds == 2 * relayout.SECONDS_EACH


def test_a_change_to_what_does_not_fit_is_none():
    """Two 4g never fit on one device, so no change leads there."""
    assert relayout.cheapest(H100, (), best.demand(H100, {"4g.40gb": 2})) is None


def _plain(part: Geometry) -> list[str]:
    return [row.name for row in part.profiles if not row.is_media and row.memory < 2 * row.compute]


def _mixes(part: Geometry, most: int) -> st.SearchStrategy[dict[str, int]]:
    names = [row.name for row in part.profiles]
    return st.dictionaries(st.sampled_from(names), st.integers(1, most), max_size=len(names))


def _slices(part: Geometry, mix: Mapping[str, int]) -> int:
    return sum(row.memory * mix.get(row.name, 0) for row in part.profiles)


def _memory(part: Geometry, layout: layouts.Layout) -> int:
    return sum(row.memory for at in layout for row in part.profiles if row.name == at.profile)


def _is_within(layout: layouts.Layout, mix: Mapping[str, int]) -> bool:
    names = [at.profile for at in layout]
    return all(names.count(name) <= mix.get(name, 0) for name in set(names))


@cache
@cache
def _brute(part: Geometry, wanted: Pattern, devices: int) -> int:
    """The most slices that any choice of layouts serves: all of them are tried."""
    if devices == 0:
        return 0
    found = 0
    for key in _patterns(part):
        if all(a <= b for a, b in zip(key, wanted, strict=True)):
            rest = tuple(a - b for a, b in zip(wanted, key, strict=True))
            mine = sum(row.memory * n for row, n in zip(part.profiles, key, strict=True))
            found = max(found, mine + _brute(part, rest, devices - 1))
    return found


@cache
def _patterns(part: Geometry) -> frozenset[Pattern]:
    return frozenset(layouts.pattern(part, layout) for layout in _all(part))


@cache
def _all(part: Geometry) -> tuple[layouts.Layout, ...]:
    return tuple(layouts.legal(part))
