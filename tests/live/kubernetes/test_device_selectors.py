"""What the selectors of a waiting claim mean for it: by the devices that slices show."""

import pytest

from tests.live.kubernetes import made
from tests.live.kubernetes.made import Object, node, pod
from tests.live.kubernetes.test_claims_of_all import BARE, claimed, machine, world_of
from tests.live.kubernetes.watched import WatchedCluster
from tests.rigs.kubernetes import wanted
from tidemill import explain
from tidemill.explain.answers import Answer
from tidemill.live.kubernetes.translate import translate
from tidemill.model.policy import Policy
from tidemill.model.world import World

PRODUCT = 'device.attributes["gpu.nvidia.com"].productName == "NVIDIA A100-SXM4-80GB"'
NEAR = 'device.attributes["gpu.nvidia.com"].side == "near"'
ODD = 'device.attributes["gpu.nvidia.com"].productName.find("A100") != ""'


def of_type(name: str, gpus: int, product: str) -> list[Object]:
    """A node, and the slice with its GPUs of a type."""
    devices = [wanted.device(f"gpu-{i}", productName=product) for i in range(gpus)]
    return [node(name, **BARE), wanted.resource_slice(name, devices)]


def why(expression: str, *objects: Object, count: int = 1) -> Answer:
    """What is said of a pod whose claim selects by an expression."""
    template = wanted.claim_template("t", wanted.claim_spec(count, expression))
    classes = wanted.device_class("gpu.nvidia.com")
    world = world_of(*objects, classes, template, claimed("a", "t"))
    return explain.why(world, Policy(), world.job_number["ml/a"])


H100, A100 = "NVIDIA-H100-80GB-HBM3", "NVIDIA A100-SXM4-80GB"


def test_a_claim_for_devices_that_no_node_publishes_does_not_fit():
    """All GPUs are H100, and it selects A100: nothing that is free is what it requests."""
    found = why(PRODUCT, *of_type("n0", 4, H100))
    assert found.cause == "impossible_label"
    assert "its claims want 1 device for which device.attributes" in found.words
    assert "no node publishes so many" in found.words
    assert "what it requests is free" not in found.words


def test_a_claim_for_more_devices_than_a_node_has_of_them_does_not_fit():
    """It wants four, and each node has two that it selects."""
    found = why(NEAR, *machine("n0", 4), *machine("n1", 4), count=4)
    assert found.cause == "impossible_label"


def test_a_selector_that_tells_types_apart_is_one_of_types():
    """Of one node with H100 and one with A100, the second counts for it, and that is full."""
    full = [
        pod("b", 0, on="n1", spec={"resourceClaims": [{"name": "x", "resourceClaimName": "c"}]})
    ]
    results = [{"driver": "gpu.nvidia.com", "pool": "n1", "device": f"gpu-{i}"} for i in range(4)]
    held = {"allocation": {"devices": {"results": results}},
            "reservedFor": [{"resource": "pods", "name": "b"}]}  # fmt: skip
    claim = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
             "metadata": {"name": "c", "namespace": "ml"}, "spec": wanted.claim_spec(4),
             "status": held}  # fmt: skip
    found = why(PRODUCT, *of_type("n0", 4, H100), *of_type("n1", 4, A100), claim, *full)
    assert found.cause == "busy"
    assert "needs 1 A100-80GB by claim, and 0 are free" in found.words


def test_a_selector_of_some_devices_of_a_node_is_unknown_to_the_books():
    """Half of the GPUs of each node are near: how many of those are free nodes do not say."""
    found = why(NEAR, *machine("n0", 4))
    assert f"1 device for which {NEAR[:20]}" in found.words
    assert "what it requests is free" not in found.words


def test_a_selector_that_is_not_understood_is_named():
    """Nobody can say which devices it selects."""
    found = why(ODD, *of_type("n0", 4, H100))
    assert "productName.find" in found.words
    assert "what it requests is free" not in found.words


@pytest.mark.parametrize("expression", ['device.driver == "gpu.nvidia.com"', "true"])
def test_a_selector_that_holds_of_all_devices_changes_nothing(expression: str):
    """What is free is what it requests."""
    found = why(expression, *of_type("n0", 4, H100))
    assert " for which " not in found.words


L4 = "NVIDIA L4"
MIXED = [*of_type("n0", 4, H100), *of_type("n1", 4, A100), *of_type("n2", 2, L4)]


def by(product: str) -> str:
    """The expression by which NVIDIA's examples select a product."""
    told = 'device.attributes["gpu.nvidia.com"].productName'
    return f"{told}.lowerAscii().matches('^.*{product}.*$')"


def held(node: str, *devices: str, name: str = "b") -> list[Object]:
    """A pod on a node, and the claim by which it has devices there."""
    results = [{"driver": "gpu.nvidia.com", "pool": node, "device": one, "request": "gpu"}
               for one in devices]  # fmt: skip
    one = made.owner(
        "resource.k8s.io/v1", "ResourceClaim", f"c-{name}", wanted.claim_spec(len(devices)),
        status={"allocation": {"devices": {"results": results}},
                "reservedFor": [{"resource": "pods", "name": name}]},
    )  # fmt: skip
    by_name = {"resourceClaims": [{"name": "x", "resourceClaimName": f"c-{name}"}]}
    return [one, pod(name, 0, on=node, spec=by_name)]


def asking(spec: Object, *objects: Object) -> World:
    """A cluster with a pod that waits with a claim."""
    template = wanted.claim_template("t", spec)
    return world_of(*objects, wanted.device_class("gpu.nvidia.com"), template, claimed("a", "t"))


def types(world: World, name: str = "ml/a") -> tuple[str, ...]:
    """Of which GPU types a job requests some; () is any."""
    return world.shape_of(world.job_number[name]).roles[0].kinds


LARGE = 'device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("40Gi")) >= 0'


@pytest.mark.parametrize(
    ("expression", "kinds"),
    [
        (PRODUCT, ("A100-80GB",)),
        (by("h100"), ("H100",)),
        (f"{by('h100')} || {by('l4')}", ("H100", "L4")),
        (f"!({by('h100')})", ("A100-80GB", "L4")),
        ("device.driver == 'gpu.nvidia.com'", ()),
        (ODD, ()),  # nobody can say
    ],
)
def test_a_job_requests_the_types_that_its_claim_selects(expression: str, kinds: tuple[str, ...]):
    """Of a cluster with three types: those of the nodes whose devices match."""
    assert types(asking(wanted.claim_spec(1, expression), *MIXED)) == kinds


def test_a_class_selects_too():
    """The selectors of a DeviceClass count as those of the claim."""
    some = wanted.device_class("only-h100", by("h100"))
    spec = wanted.claim_spec(1, device_class="only-h100")
    assert types(asking(spec, *MIXED, some)) == ("H100",)


def test_what_is_understood_of_selectors_counts_beside_what_is_not():
    """The class selects H100, and the claim some of these that nobody can tell."""
    some = wanted.device_class("only-h100", by("h100"))
    spec = wanted.claim_spec(1, ODD, device_class="only-h100")
    world = asking(spec, *MIXED, some)
    assert types(world) == ("H100",)
    assert "not understood" in explain.why(world, Policy(), world.job_number["ml/a"]).words


def test_who_runs_has_the_same_types():
    """A job does not ask for other types when it starts: its claim is as it was."""
    spec = wanted.claim_spec(1, f"{by('h100')} || {by('l4')}")
    one, run = held("n0", "gpu-0")
    one["spec"] = spec
    assert types(asking(spec, *MIXED, one, run), "ml/b") == ("H100", "L4")


def test_idle_gpus_of_other_types_are_not_charged_to_it():
    """All H100 are held: A100 and L4 are free, and not for who waits for H100."""
    full = held("n0", *(f"gpu-{i}" for i in range(4)))
    world = asking(wanted.claim_spec(1, by("h100")), *MIXED, *full)
    board = explain.board(world, Policy())
    assert (board.free_milli, board.unclaimed_milli) == (6_000, 6_000)
    found = explain.why(world, Policy(), world.job_number["ml/a"])
    assert found.cause == "busy"
    assert "needs 1 H100 by claim, and 0 are free" in found.words
    assert "what it requests is free" not in found.words


def test_what_no_node_publishes_is_never_free_by_the_books_either():
    """The books prove it by the expression, charge nothing to it, and name what shows it."""
    world = asking(wanted.claim_spec(1, by("b200")), *MIXED)
    found = explain.why(world, Policy(), world.job_number["ml/a"])
    assert (found.cause, found.owner) == ("impossible_label", "workload")
    assert f"is on a node with `1 device for which {by('b200')}`" in found.words
    lines = {one.line for fact in found.evidence for one in fact.shown_by}
    assert "kubectl get resourceslices -o yaml" in lines
    assert "kubectl get resourceclaims,resourceclaimtemplates -n ml -o yaml" in lines
    assert explain.board(world, Policy()).unclaimed_milli == 10_000


def test_more_devices_of_a_type_than_a_node_has_is_a_matter_of_size():
    """The nodes have such devices, and not as many of them on one."""
    world = asking(wanted.claim_spec(5, by("a100")), *MIXED)
    found = explain.why(world, Policy(), world.job_number["ml/a"])
    assert found.cause == "impossible_size"
    assert "requests 5 A100-80GB by claim on one node" in found.words


def request(name: str, expression: str, count: int = 1) -> Object:
    """One of several requests of a claim."""
    return {"name": name, "exactly": {
        "deviceClassName": "gpu.nvidia.com", "count": count,
        "selectors": [{"cel": {"expression": expression}}],
    }}  # fmt: skip


def test_requests_for_one_type_are_of_that_type():
    """Two requests for H100, and one for any GPU: all of a pod is on one node."""
    spec = {"devices": {"requests": [request("x", by("h100")), request("y", by("h100"), 2),
                                     request("z", "true")]}}  # fmt: skip
    world = asking(spec, *MIXED)
    assert types(world) == ("H100",)
    assert "what it requests is free" in explain.why(world, Policy(), 0).words


def test_requests_for_types_that_no_node_has_both_never_fit():
    """A pod is on one node, and each has GPUs of one type."""
    spec = {"devices": {"requests": [request("x", by("h100")), request("y", by("a100"))]}}
    found = explain.why(asking(spec, *MIXED), Policy(), 0)
    assert found.cause == "impossible_label"
    assert f"1 device for which {by('h100')} and 1 device for which {by('a100')}" in found.words


def alike(count: int, attribute: str) -> Object:
    """A claim for devices that have an attribute in common."""
    told = wanted.claim_spec(count)
    told["devices"]["constraints"] = [{"matchAttribute": f"gpu.nvidia.com/{attribute}"}]
    return told


def test_devices_that_must_be_alike_are_where_so_many_are():
    """`matchAttribute` of the side: three of four are on no side; of two nobody can say which are
    free; what all devices of a node have in common changes nothing.
    """
    near = machine("n0", 4)
    never, two, same = (explain.why(asking(spec, *near), Policy(), 0) for spec in (
        alike(3, "side"), alike(2, "side"), alike(4, "productName")))  # fmt: skip
    assert never.cause == "impossible_label"
    assert "3 devices for which gpu.nvidia.com/side is the same (matchAttribute)" in never.words
    assert "unknown, for nobody here can tell: 2 devices for which gpu" in two.words
    assert "what it requests is free" in same.words


def test_constraints_of_some_requests_are_unknown():
    """Of three requests two must be alike: the books say that they cannot tell."""
    spec = {"devices": {
        "requests": [request(name, "true") for name in "xyz"],
        "constraints": [{"matchAttribute": "gpu.nvidia.com/side", "requests": ["x", "y"]}],
    }}  # fmt: skip
    found = explain.why(asking(spec, *machine("n0", 4)), Policy(), 0)
    assert "constraints other than matchAttribute of all requests" in found.words
    assert "what it requests is free" not in found.words


def choosing(*choices: tuple[int, str]) -> Object:
    """A claim for so many devices of a product, or else so many of another."""
    some = [request(f"c{i}", by(product), count)["exactly"] | {"name": f"c{i}"}
            for i, (count, product) in enumerate(choices)]  # fmt: skip
    return {"devices": {"requests": [{"name": "gpu", "firstAvailable": some}]}}


def test_any_of_the_choices_would_do():
    """`firstAvailable` of H100 or else A100: of both types, and one of the A100 is free."""
    full = held("n0", *(f"gpu-{i}" for i in range(4)))
    world = asking(choosing((1, "h100"), (1, "a100")), *MIXED, *full)
    assert types(world) == ("A100-80GB", "H100")
    found = explain.why(world, Policy(), world.job_number["ml/a"])
    assert "4 A100-80GB or H100 by claim are free, which is enough for it" in found.words


def test_choices_of_other_numbers_are_asked_one_by_one():
    """4 H100, or else 2 A100: no H100 is free, and two A100 are."""
    full = held("n0", *(f"gpu-{i}" for i in range(4)))
    two = held("n1", "gpu-0", "gpu-1", name="d")
    found = explain.why(
        asking(choosing((4, "h100"), (2, "a100")), *MIXED, *full, *two), Policy(), 0
    )
    assert "2 A100-80GB by claim are free, which is enough for it" in found.words
    three = held("n1", "gpu-0", "gpu-1", "gpu-2", name="d")
    found = explain.why(asking(choosing((4, "h100"), (2, "a100")), *MIXED, *full, *three),
                        Policy(), 0)  # fmt: skip
    assert "needs 4 H100 by claim, and 0 are free" in found.words


def test_all_devices_that_match_of_a_node_are_of_its_type():
    """`allocationMode: All` of the H100: as many as a node has, of that type."""
    spec = wanted.claim_spec(0, by("h100"), exactly={"allocationMode": "All"})
    world = asking(spec, *MIXED)
    assert (types(world), world.shape_of(0).total_milli) == (("H100",), 4_000)


def test_a_gang_whose_pods_run_and_wait_is_one_role():
    """What its claims select is the same of a pod that runs and of one that waits."""
    job = made.owner("batch/v1", "Job", "g", {
        "completionMode": "Indexed", "parallelism": 2, "completions": 2,
        "template": {"spec": {"subdomain": "g", "containers": [], "resourceClaims": [
            {"name": "x", "resourceClaimTemplateName": "t"}]}}})  # fmt: skip
    of = ("batch/v1", "Job", "g")
    one, _ = held("n0", "gpu-0")
    one["spec"] = wanted.claim_spec(1, by("h100"))
    labels = {"batch.kubernetes.io/job-completion-index": "0"}
    runs = claimed("g-0", "t", on="n0", owner=of, labels=labels)
    runs["status"]["resourceClaimStatuses"] = [{"name": "x", "resourceClaimName": "c-b"}]
    waits = claimed("g-1", "t", owner=of)
    for told in (runs, waits):
        told["spec"]["subdomain"] = "g"
    template = wanted.claim_template("t", wanted.claim_spec(1, by("h100")))
    world = world_of(*MIXED, wanted.device_class("gpu.nvidia.com"), template, job, one, runs, waits)
    (role,) = world.shape_of(world.job_number["ml/g"]).roles
    assert (role.count, role.kinds) == (2, ("H100",))


def test_an_extended_resource_has_the_types_of_its_class():
    """`example.com/h100` is given out by a class that selects H100 alone."""
    some = wanted.device_class("h100s", by("h100"), extended="example.com/h100")
    world = world_of(*MIXED, some, pod("a", {"example.com/h100": 1}))
    assert types(world) == ("H100",)


AMD, NIC = "gpu.amd.com", "dra.net"


def amd(name: str, gpus: int) -> list[Object]:
    """A node with GPUs as AMD's driver publishes them."""
    devices = [wanted.device(f"gpu-{i}-128", type="amdgpu", productName="AMD_Instinct_MI300X_OAM")
               for i in range(gpus)]  # fmt: skip
    return [node(name, **BARE), wanted.resource_slice(name, devices, driver=AMD)]


@pytest.mark.parametrize("is_shown", [True, False])
def test_classes_of_two_drivers_are_of_their_own_gpus(is_shown: bool):
    """AMD's GPUs are whole ones too; of classes that nobody shows the names tell the driver."""
    classes = [wanted.device_class(AMD, driver=AMD), wanted.device_class("gpu.nvidia.com")]
    for name, kind in ((AMD, "MI300X"), ("gpu.nvidia.com", "H100")):
        template = wanted.claim_template("t", wanted.claim_spec(1, device_class=name))
        world = world_of(*amd("m0", 2), *of_type("n0", 4, H100), template, claimed("a", "t"),
                         *(classes if is_shown else ()))  # fmt: skip
        assert (types(world), explain.board(world, Policy()).free_milli) == ((kind,), 6_000)


def test_a_gpu_that_must_be_beside_a_network_card_is_unknown():
    """`matchAttribute` of a GPU and a card: which cards are free the books do not say."""
    spec = {"devices": {
        "requests": [request("x", "true"),
                     {"name": "y", "exactly": {"deviceClassName": "nic", "count": 1}}],
        "constraints": [{"matchAttribute": "resource.kubernetes.io/pcieRoot"}],
    }}  # fmt: skip
    cards = wanted.resource_slice("n0", [wanted.device("nic-0", type="nic")], driver=NIC)
    world = asking(spec, *of_type("n0", 4, H100), cards, wanted.device_class("nic", driver=NIC))
    found = explain.why(world, Policy(), 0)
    assert "2 devices for which resource.kubernetes.io/pcieRoot is the same" in found.words
    assert "what it requests is free" not in found.words


def cut(name: str, product: str, *profiles: str) -> list[Object]:
    """A node with MIG instances as NVIDIA's driver publishes them."""
    devices = [wanted.device(f"gpu-0-mig-{i}", product, type="mig", profile=profile,
                             parentUUID="GPU-0") for i, profile in enumerate(profiles)]  # fmt: skip
    return [node(name, **BARE), wanted.resource_slice(name, devices)]


INSTANCES = wanted.device_class(
    "mig.nvidia.com", 'device.attributes["gpu.nvidia.com"].type == "mig"'
)


def of_instances(expression: str, *objects: Object) -> World:
    """A cluster with a pod that waits for an instance."""
    spec = wanted.claim_spec(1, expression, device_class="mig.nvidia.com")
    return world_of(*objects, INSTANCES, wanted.claim_template("t", spec), claimed("a", "t"))


SMALL = 'device.attributes["gpu.nvidia.com"].profile == "1g.10gb"'


@pytest.mark.parametrize(
    ("expression", "kinds"),
    [
        (SMALL, ("1G.10GB OF A100-80GB", "1G.10GB OF H100")),
        (f"{SMALL} && {by('h100')}", ("1G.10GB OF H100",)),
    ],
)
def test_instances_are_of_the_gpus_that_a_claim_selects(expression: str, kinds: tuple[str, ...]):
    """The same profile of two GPU types: a claim may select one of them."""
    world = of_instances(expression, *cut("m0", H100, "1g.10gb", "1g.10gb"),
                         *cut("m1", A100, "1g.10gb"))  # fmt: skip
    assert types(world) == kinds


def test_a_profile_that_nobody_has_cut_is_one_that_no_node_has():
    """Its expression names `2g.20gb`, and no instance is such: the job waits, and never fits."""
    other = SMALL.replace("1g.10gb", "2g.20gb")
    world = of_instances(other, *cut("m0", H100, "1g.10gb", "3g.40gb"))
    assert types(world) == ("nvidia.com/mig-2g.20gb",)
    found = explain.why(world, Policy(), world.job_number["ml/a"])
    assert found.cause == "nothing_claimed"
    assert "no node has nvidia.com/mig-2g.20gb" in found.words


def test_a_node_that_gives_out_its_gpus_twice_has_some_by_claim():
    """A device plugin and slices show the same four: the books count four, and that is said."""
    both = [node("n0", 4), of_type("n0", 4, H100)[1]]
    objects = [*both, *held("n0", "gpu-3"), pod("p", 2, on="n0")]
    world = asking(wanted.claim_spec(1), *objects)
    assert explain.board(world, Policy()).free_milli == 1_000
    found = explain.why(world, Policy(), world.job_number["ml/a"])
    assert "3 GPUs by claim are free, which is enough for it" in found.words
    assert types(asking(wanted.claim_spec(1, by("h100")), *objects, *MIXED[2:])) == ("H100",)
    (note,) = [one for one in translate(made.taken(*objects)).notes if "neither knows" in one]
    assert note.startswith("node `n0` gives out its GPUs by a device plugin and by claims (DRA)")


def test_gpus_that_are_cut_when_somebody_asks():
    """Two GPUs, an instance of one is held: one is free whole, and small instances still fit."""
    parts = wanted.partitioned("n0", 2)
    one, run = held("n0", "gpu-0-1g-0")
    small = wanted.claim_template("s", wanted.claim_spec(1, SMALL, device_class="mig.nvidia.com"))
    world = asking(wanted.claim_spec(2, by("h100")), node("n0", **BARE), *parts, INSTANCES, one,
                   run, small, claimed("w", "s"))  # fmt: skip
    whole, part = (explain.why(world, Policy(), world.job_number[name])
                   for name in ("ml/a", "ml/w"))  # fmt: skip
    assert whole.cause == "busy"
    assert "at most 1 GPUs by claim" not in whole.words
    assert "needs 2 GPUs by claim, and 1 are free" in whole.words
    assert "no node has" not in part.words, "GPUs are cut for it"
    assert part.cause == "none"
    assert "what it requests is free" in part.words


def test_a_watched_job_has_one_request_from_its_wait_on():
    """It waits for H100 or L4, runs on H100, and another type of node joins: the same types."""
    spec = wanted.claim_spec(1, f"{by('h100')} || {by('l4')}")
    template, classes = wanted.claim_template("t", spec), wanted.device_class("gpu.nvidia.com")
    cluster = WatchedCluster(*MIXED, classes, lateness=5)
    cluster.told(10, template, claimed("a", "t", created=10))
    cluster.look(20, 40)
    world = cluster.observer.world
    assert types(world) == ("H100", "L4")
    one, _ = held("n0", "gpu-0")
    one["spec"] = spec
    runs = claimed("a", "t", created=10, on="n0", bound=50, up=50)
    runs["status"]["resourceClaimStatuses"] = [{"name": "x", "resourceClaimName": "c-b"}]
    cluster.told(50, one, runs)
    cluster.look(60, 80)
    cluster.told(90, *of_type("n3", 2, "NVIDIA B200"))
    cluster.look(100, 130)
    assert [*world.job_names] == ["ml/a"]
    assert types(world) == ("H100", "L4")
    assert cluster.seconds("ml/a")["UNKNOWN"] == 75


def test_a_watched_job_that_could_never_fit_may_when_its_devices_come():
    """No node has B200; one joins, and it is one job all the time."""
    template = wanted.claim_template("t", wanted.claim_spec(1, by("b200")))
    classes = wanted.device_class("gpu.nvidia.com")
    cluster = WatchedCluster(*MIXED, classes, template, claimed("a", "t", created=10), lateness=5)
    cluster.look(20, 40)
    assert cluster.why("ml/a").cause == "impossible_label"
    cluster.told(50, *of_type("n3", 2, "NVIDIA B200"))
    cluster.look(60, 90)
    world = cluster.observer.world
    assert [*world.job_names] == ["ml/a"]
    assert types(world) == ("B200",)
    assert "what it requests is free" in cluster.why("ml/a").words
