"""Claims that select some of the devices of a machine, and not others that are alike."""

from typing import Any

import pytest

from tests.live.kubernetes.scheduling.pretended import CLAIMED, results_of
from tests.live.kubernetes.scheduling.test_holding import Story
from tests.rigs.kubernetes.wanted import DRIVER, claim, device, device_class, resource_slice

NUMA = f"{DRIVER}/numa"
FAR = {"rig/devices": f"device.attributes['{DRIVER}'].numa == 1"}


class Halved(Story):
    """A pretended cluster of machines whose devices are on two sides."""

    def __init__(self, *names: str, gpus: int = 4) -> None:
        super().__init__()
        for name in names:
            self.server.put_node(name, gpus)
            for i, one in enumerate(self.server.slices[name]["spec"]["devices"]):
                one["attributes"]["numa"] = {"int": 2 * i // gpus}

    def claim(self, name: str, gpus: int, **rest: Any) -> None:
        """A pod with devices by claim."""
        self.server.make(name, gpus, resource=CLAIMED, **rest)

    def claim_two(
        self, name: str, constraint: dict[str, object], requests: tuple[str, ...] = ("a", "b")
    ) -> None:
        """A pod with two devices by requests of one claim that have something in common."""
        self.claim(name, 2)
        key = ("ml", f"c-{name}")
        for told in (self.server.claims[key], *(n[2] for n in self.server.news if n[1] == key)):
            asked = told["spec"]["devices"]
            exact = {**asked["requests"][0]["exactly"], "count": 2 // len(requests)}
            asked["requests"] = [{"name": one, "exactly": exact} for one in requests]
            asked["constraints"] = [constraint]

    def given(self, name: str) -> set[str]:
        """The devices of a pod."""
        return {row["device"] for row in results_of(self.server.claims["ml", f"c-{name}"])}


def test_nobody_leaves_for_a_claim_that_tells_devices_of_a_machine_apart():
    """A pod holds all four devices of a machine, another wants two of one side: that one waits.

    It gets them when they are free, and then somebody who wants all four waits.
    """
    story = Halved("d0")
    story.claim("all", 4)
    story.rest()
    story.claim("far", 2, annotations=FAR)
    story.rest()
    assert story.bound() == {"all": "d0"}
    assert ("all", "eviction") not in story.server.asked
    story.server.drop(("ml", "all"))
    story.rest()
    assert story.bound() == {"far": "d0"}
    assert story.given("far") == {"gpu-2", "gpu-3"}


def test_a_machine_is_whole_again_for_whoever_asks_for_all_of_it():
    """Somebody selected devices of one side, and is gone."""
    story = Halved("d0")
    story.claim("far", 1, annotations=FAR)
    story.rest()
    story.server.drop(("ml", "far"))
    story.claim("all", 4)
    story.rest()
    assert story.bound() == {"all": "d0"}


def test_devices_of_both_sides_serve_who_selects_none():
    """Beside a pod with one device of a side, three of four are free for another."""
    story = Halved("d0")
    story.claim("far", 1, annotations=FAR)
    story.rest()
    story.claim("rest", 3)
    story.rest()
    assert story.bound() == {"far": "d0", "rest": "d0"}
    assert story.given("far") | story.given("rest") == {f"gpu-{i}" for i in range(4)}


def test_who_selects_devices_that_are_held_waits_for_those_and_says_so():
    """Two devices are free, and of the side that is asked for none: it goes to another machine.

    Where there is no other it is held, and starts when one of them is given back.
    """
    story = Halved("d0")
    story.claim("first", 2, annotations=FAR)
    story.rest()
    story.claim("next", 1, annotations=FAR)
    story.rest()
    assert story.bound() == {"first": "d0"}
    reason, words = story.held()["ml/next"]
    assert reason == "BindRefused"
    assert words.endswith("node `d0` has 0 free, and 1 are requested")
    story.claim("third", 2)
    story.rest()
    assert story.bound() == {"first": "d0", "third": "d0"}
    story.server.drop(("ml", "first"))
    story.rest()
    assert story.bound() == {"next": "d0", "third": "d0"}


def test_two_pods_of_a_gang_that_select_one_side_are_on_two_machines():
    """One device of that side is left on each of two machines."""
    story = Halved("d0", "d1")
    story.claim("a", 1, annotations=FAR)
    story.claim("b", 1, annotations=FAR)
    story.rest()
    story.claim("c", 1, annotations=FAR, gang="g", size=2)
    story.claim("d", 1, annotations=FAR, gang="g", size=2)
    story.rest()
    bound = story.bound()
    assert len(bound) == 4
    for name in bound:
        assert story.given(name) <= {"gpu-2", "gpu-3"}


@pytest.mark.parametrize(
    ("named", "requests"),
    [({}, ("a", "b")), ({"requests": ["a", "b"]}, ("a", "b")), ({}, ("a",))],
    ids=["of all", "by name", "of one"],
)
def test_the_devices_of_a_claim_have_in_common_what_it_says(
    named: dict[str, object], requests: tuple[str, ...]
):
    """One device of the first side is held: both are of the other."""
    story = Halved("d0")
    story.claim("one", 1)
    story.rest()
    story.claim_two("two", {"matchAttribute": NUMA, **named}, requests)
    story.rest()
    assert story.given("one") == {"gpu-0"}
    assert story.given("two") == {"gpu-2", "gpu-3"}


def test_a_claim_whose_devices_have_nothing_in_common_waits():
    """One device of each side is left: enough in number, and not alike."""
    story = Halved("d0")
    story.claim("near", 1)
    story.claim("far", 1, annotations=FAR)
    story.rest()
    story.claim_two("two", {"matchAttribute": NUMA})
    story.rest()
    assert story.bound() == {"near": "d0", "far": "d0"}
    reason, words = story.held()["ml/two"]
    assert reason == "BindRefused"
    assert words.endswith("node `d0` has 1 free, and 2 are requested")


def test_a_constraint_of_some_requests_is_named_once():
    """It is not placed, and says so."""
    story = Halved("d0")
    story.claim_two("two", {"matchAttribute": NUMA, "requests": ["a"]})
    story.rest()
    reason, words = story.held()["ml/two"]
    assert reason == "NotSupported"
    assert words.count("constraints other than matchAttribute of all requests") == 1


NIC = "nic.rig"


class WithCards(Halved):
    """The same, with some network cards of a second driver on each machine, for claims beside."""

    def __init__(self, *names: str, cards: int = 1) -> None:
        super().__init__(*names)
        self.server.news.append(
            ("DeviceClass", ("", "nic"), device_class("nic", driver=NIC), False)
        )
        for name in names:
            some = [device(f"nic-{i}", type="nic") for i in range(cards)]
            one = self.server.slices[f"{name}-nic"] = resource_slice(name, some, driver=NIC)
            self.server.news.append(("ResourceSlice", ("", f"{name}-nic"), one, False))

    def claim_with_card(self, name: str, gpus: int, **rest: Any) -> None:
        """A pod whose claim is for GPUs and one card of the same machine."""
        self.claim(name, gpus, **rest)
        key = ("ml", f"c-{name}")
        for told in (self.server.claims[key], *(n[2] for n in self.server.news if n[1] == key)):
            card = {"name": "nic", "exactly": {"deviceClassName": "nic", "count": 1}}
            told["spec"]["devices"]["requests"].append(card)


def test_a_gang_is_not_on_a_machine_that_has_too_few_cards_for_it():
    """Of one machine's four GPUs and one card two pods with two GPUs and a card need one more: they
    are on the one with two cards, though it has as many GPUs free.
    """
    story = WithCards("d0", "d1")
    some = [device(f"nic-{i}", type="nic") for i in range(2)]
    more = resource_slice("d1", some, driver=NIC)
    more["spec"]["pool"]["generation"] = 2
    story.server.slices["d1-nic"] = more
    story.server.news.append(("ResourceSlice", ("", "d1-nic"), more, False))
    for name in ("a", "b"):
        story.claim_with_card(name, 2, gang="g", size=2)
    story.rest()
    assert story.bound() == {"a": "d1", "b": "d1"}
    assert {one for name in "ab" for one in story.given(name) if one.startswith("nic")} == {
        "nic-0", "nic-1",
    }  # fmt: skip


def test_a_gang_that_no_machine_has_cards_enough_for_is_on_several():
    """Two machines of four GPUs and two cards, four pods with one of each: two pods on each."""
    story = WithCards("d0", "d1", cards=2)
    for i in range(4):
        story.claim_with_card(f"g{i}", 1, gang="g", size=4)
    story.rest()
    assert sorted(story.bound().values()) == ["d0", "d0", "d1", "d1"]
    held = [(node, device) for name, node in story.bound().items() for device in story.given(name)]
    assert len({*held}) == 8


def test_a_gang_that_all_cards_together_do_not_serve_is_told_how_many_it_requests():
    """One card on each of two machines, all free, and four pods that want one each."""
    story = WithCards("d0", "d1")
    for i in range(4):
        story.claim_with_card(f"g{i}", 1, gang="g", size=4)
    story.rest()
    assert story.bound() == {}
    reason, words = story.held()["ml/g"]
    assert reason == "BindRefused"
    assert "has 1 free, and 4 are requested by 4 pods of its gang together; 1 more" in words


def test_who_waits_for_a_card_says_so_and_starts_when_one_is_given_back():
    """Two GPUs are free beside it, which one without a card may have meanwhile."""
    story = WithCards("d0")
    story.claim_with_card("first", 1)
    story.rest()
    story.claim_with_card("next", 1)
    story.rest()
    assert story.bound() == {"first": "d0"}
    reason, words = story.held()["ml/next"]
    assert reason == "BindRefused"
    assert words.endswith("node `d0` has 0 free, and 1 are requested")
    assert "class nic" in words
    story.claim("plain", 2)
    story.rest()
    assert story.bound() == {"first": "d0", "plain": "d0"}
    story.server.drop(("ml", "first"))
    story.rest()
    assert story.bound() == {"next": "d0", "plain": "d0"}


def test_a_card_that_a_claim_without_accelerators_held_is_given_on():
    """Somebody else's claim held the only card; it has no GPU, and is given back."""
    story = WithCards("d0")
    theirs = claim("theirs", {"devices": {"requests": [
        {"name": "nic", "exactly": {"deviceClassName": "nic", "count": 1}},
    ]}})  # fmt: skip
    row = {"request": "nic", "driver": NIC, "pool": "d0", "device": "nic-0"}
    theirs["metadata"] |= {"uid": "theirs", "resourceVersion": "1"}
    theirs["status"] = {
        "allocation": {"devices": {"results": [row]}},
        "reservedFor": [{"resource": "pods", "name": "x", "uid": "of another scheduler"}],
    }
    story.server.put(theirs)
    story.claim_with_card("mine", 2)
    story.rest()
    assert story.bound() == {}
    assert story.held()["ml/mine"][0] == "BindRefused"
    story.server.put(theirs, is_gone=True)
    story.rest()
    assert story.bound() == {"mine": "d0"}
