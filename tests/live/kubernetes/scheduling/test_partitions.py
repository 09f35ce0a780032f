"""Devices that share counters: cut when somebody waits for a part, and never over-consumed."""

import random
from collections import Counter
from pathlib import Path
from typing import Any

from tests.live.kubernetes.scheduling.test_claim_book import KIND, view
from tests.live.kubernetes.scheduling.test_devices import message
from tests.live.kubernetes.scheduling.test_placing import PODS
from tests.live.kubernetes.scheduling.test_resizing import told
from tests.rigs.kubernetes import wanted
from tests.rigs.kubernetes.claimed import API, CLAIMS, TEMPLATES, allocated, wrong_claims
from tests.rigs.kubernetes.cluster import Cluster
from tests.rigs.kubernetes.scheduled import OURS, scheduling
from tests.rigs.kubernetes.wanted import (
    SLICES,
    WHOLE,
    claim_spec,
    claim_template,
    claiming,
    device_class,
    node,
    of_profile,
    partitioned,
    pod,
)
from tidemill.live.kubernetes import dra
from tidemill.live.kubernetes.scheduling.claims import DeviceForm
from tidemill.live.kubernetes.scheduling.partitions import Partitions, PodWants
from tidemill.live.kubernetes.scheduling.view import ClusterView

MEMORY = {"1g.10gb": 10, "2g.20gb": 20, "3g.40gb": 40, "": 80}
PROFILES = {profile[:2]: profile for profile in SLICES}


def profile_of(name: str) -> str:
    """Of a device of the rig, by its name; "": it is whole."""
    told = name.split("-")
    return PROFILES[told[2]] if len(told) > 2 else ""


def over_consumed(names: list[str]) -> list[str]:
    """GPUs of one machine of which these devices take more than there is, by a plain sum."""
    slices, memory = Counter[str](), Counter[str]()
    for name in names:
        gpu = "-".join(name.split("-")[:2])
        slices[gpu] += SLICES.get(profile_of(name), 7)
        memory[gpu] += MEMORY[profile_of(name)]
    return [gpu for gpu in slices if slices[gpu] > 7 or memory[gpu] > 80]


def cut(gpus: int = 2) -> ClusterView:
    """A machine with GPUs that can be cut."""
    found = view([])
    for one in partitioned("n0", gpus):
        found.take(KIND, ("", one["metadata"]["name"]), dra.read_slice(one), False)
    return found


def wants(name: str, *asks: tuple[str, int]) -> list[PodWants]:
    """A pod that waits for so many instances of profiles; "": whole devices."""
    forms = tuple(
        (DeviceForm(wanted.DRIVER, (of_profile(one) if one else WHOLE,)), count)
        for one, count in asks
    )
    return [PodWants(("ml", name), forms, lambda _: True)]


def offered(found: Partitions) -> list[str]:
    return sorted(device for _, _, device in found.offered["n0"])


def test_devices_are_whole_until_somebody_waits_for_a_part_and_again_afterwards():
    """One GPU is cut into instances of the profile that is waited for; the other stays whole."""
    book, found = cut().claimed.book, Partitions()
    found.look(book, [], set())
    assert offered(found) == ["gpu-0", "gpu-1"]
    assert found.look(book, [wants("a", ("2g.20gb", 1))], set())[0] == ["n0"]
    assert offered(found) == ["gpu-0-2g-0", "gpu-0-2g-1", "gpu-0-2g-2", "gpu-1"]
    assert found.look(book, [wants("b", ("2g.20gb", 2))], set())[0] == []
    found.look(book, [wants("c", ("", 2))], set())
    assert offered(found) == ["gpu-0", "gpu-1"]


def test_the_oldest_is_served_first_and_who_lacks_is_told_the_counter():
    """Two whole devices are waited for: a younger job has no part of them, and is told so."""
    book, found = cut().claimed.book, Partitions()
    _, news = found.look(book, [wants("old", ("", 2)), wants("young", ("1g.10gb", 1))], set())
    assert news == [("ml", "young")]
    assert "counter `compute-slices`" in found.lacks["ml", "young"]
    assert "0 is left" in found.lacks["ml", "young"]


def test_whatever_waits_and_is_held_nothing_is_offered_that_consumes_too_much():
    """Any jobs, any devices held: what is offered fits, by a plain sum; who is served is there."""
    chance = random.Random(4)
    for _ in range(200):
        found, gpus = Partitions(), chance.randint(1, 3)
        shown = cut(gpus)
        book, held = shown.claimed.book, list[str]()
        names = [device.name for device in book.published("n0")]
        for _ in range(chance.randint(0, 4)):
            more = [*held, chance.choice(names)]
            if not over_consumed([*{*more}]):
                held = [*{*more}]
        for name in held:
            book.holder[wanted.DRIVER, "n0", name] = ("ml", "x")
        for _ in range(3):
            jobs = [wants(f"{i}", (chance.choice(["", *SLICES]), chance.randint(1, 3)))
                    for i in range(chance.randint(0, 5))]  # fmt: skip
            found.look(book, jobs, set())
            assert over_consumed(offered(found)) == []
            assert {*held} <= {*offered(found)}
            if jobs and jobs[0][0].key not in found.lacks:
                form, count = jobs[0][0].asks[0]
                such = [one for one in book.published("n0") if form.holds(one)]
                able = [one for one in such if one.id in found.offered["n0"]]
                left = [one for one in such if one.name not in held]
                assert len(able) >= count or len(left) < count, "held ones are on offer too"


def test_who_could_have_what_others_hold_is_in_the_queue_and_not_held():
    """All instances of a profile are held: a job for one more waits for them, as for any GPU."""
    book, found = cut(1).claimed.book, Partitions()
    for i in range(7):
        book.holder[wanted.DRIVER, "n0", f"gpu-0-1g-{i}"] = ("ml", f"x{i}")
    found.look(book, [wants("a", ("1g.10gb", 1)), wants("b", ("2g.20gb", 1))], set())
    assert [*found.lacks] == [("ml", "b")]


def test_who_asks_for_more_than_a_machine_has_lacks_no_counter():
    """That never fits, whatever is held: it is in the queue, where it is told so."""
    book, found = cut(2).claimed.book, Partitions()
    book.holder[wanted.DRIVER, "n0", "gpu-0-1g-0"] = ("ml", "x")
    found.look(book, [wants("three", ("", 3)), wants("two", ("", 2))], set())
    assert [*found.lacks] == [("ml", "two")]


def given(rig: Cluster) -> dict[str, list[str]]:
    """By machine: the devices that claims hold."""
    found = dict[str, list[str]]()
    for some in allocated(rig).values():
        for pool, device in some:
            found.setdefault(pool, []).append(device)
    return found


def test_partitions_on_a_real_cluster(rig: Cluster, tmp_path: Path):
    """Instances of three profiles and whole GPUs on two machines; kube-scheduler takes some too.

    No counter is ever over-consumed; a pod for which none is left is told which one; when what is
    in its way ends, it is placed. An instance goes where a GPU is cut already.
    """
    rig.create(f"{API}/deviceclasses", device_class())
    rig.add_nodes(*(node(f"n{i}", 2, advertised=0) for i in range(2)))
    for i in range(2):
        rig.create(f"{API}/resourceslices", *partitioned(f"n{i}", 2))
    for name, spec in {
        "whole": claim_spec(1, WHOLE),
        **{p[:2]: claim_spec(1, of_profile(p)) for p in SLICES},
    }.items():
        rig.create(TEMPLATES, claim_template(name, spec))
    rig.create(PODS, pod("other", 0, **claiming(template="2g")))
    rig.wait_until_running("ml", 1)

    def ours(name: str, template: str) -> dict[str, Any]:
        return pod(name, 0, schedulerName=OURS, **claiming(template=template))

    with scheduling(rig, tmp_path) as scheduler:
        rig.create(PODS, *(ours(f"two-{i}", "2g") for i in range(2)))
        rig.wait_until_running("ml", 3)
        cut_gpus = {(m, d[:5]) for m, some in given(rig).items() for d in some}
        assert len(cut_gpus) == 1, "the GPU that kube-scheduler cut is used first"
        rig.create(PODS, *(ours(f"whole-{i}", "whole") for i in range(3)))
        rig.wait_until_running("ml", 6)
        rig.create(PODS, ours("late", "3g"))
        rig.wait_for("it is told", lambda: "counter `" in message(rig, "late"))
        assert "compute-slices" in message(rig, "late")
        rig.wait_for("why says it too", lambda: "counter `compute-slices`" in " ".join(
            told(scheduler.journal, "why", "ml/late").split()))  # fmt: skip
        rig.delete_pod("ml", "whole-0")
        rig.wait_until_running("ml", 6)
        rig.create(PODS, ours("one", "1g"))
        rig.wait_until_running("ml", 7)
        assert scheduler.stop() == 0
    # the claim of a pod that is gone is collected later
    rig.wait_for("each pod has one", lambda: len(rig.items(CLAIMS)) == 7)
    assert {m: over_consumed(some) for m, some in given(rig).items()} == {"n0": [], "n1": []}
    assert wrong_claims(rig) == []
