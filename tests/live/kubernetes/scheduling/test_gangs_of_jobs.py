"""An annotation says which pods of Jobs are one gang; where something else does, that is said."""

from typing import Any

import pytest

from tests.live.kubernetes import made
from tests.live.kubernetes.scheduling.pretended import Object, Scheduler
from tests.live.kubernetes.scheduling.test_holding import Story, in_group, pod_group
from tidemill.live.kubernetes.scheduling import sizes

JOB = "batch/v1"
INDEX = "batch.kubernetes.io/job-completion-index"


def job(story: Story, name: str, pods: int, *, is_indexed: bool = False, **told: Any) -> None:
    """A Job of pods with 1 GPU each; ``told``: of its spec, or the annotations of its pods."""
    notes: Object = {f"tidemill/{key}": value for key, value in told.pop("notes", {}).items()}
    about = {"subdomain": name} if is_indexed else {}
    spec = {"parallelism": pods, "completions": pods, "template": made.template(1, **about)}
    spec |= {"completionMode": "Indexed" if is_indexed else "NonIndexed"} | told
    story.server.put(made.owner(JOB, "Job", name, spec))
    for i in range(pods):
        story.server.make(
            f"{name}-{i}", 1, owner=(JOB, "Job", name), annotations=notes, spec=about,
            labels={INDEX: str(i)} if is_indexed else {},
        )  # fmt: skip


@pytest.mark.parametrize("is_indexed", [False, True])
def test_two_jobs_that_name_one_gang_start_together(is_indexed: bool):
    """A launcher and workers, 2 pods each of a gang of 6: none starts; with 2 more, all do."""
    story, notes = Story(8), {"gang": "tv", "gang-size": "6"}
    for name in ("lead", "work"):
        job(story, name, 2, notes=notes, is_indexed=is_indexed)
    story.rest()
    assert story.bound() == {}
    assert story.held()["ml/tv"][0] == "WaitingForGang"
    assert "4 of the 6 pods" in story.held()["ml/tv"][1]
    job(story, "more", 2, notes=notes, is_indexed=is_indexed)
    story.rest()
    assert len(story.bound()) == 6
    assert story.held() == {}


GROUPS: dict[str, tuple[str, dict[str, Object]]] = {
    "scheduler-plugins": (
        "scheduling.x-k8s.io/v1alpha1", {"labels": {"scheduling.x-k8s.io/pod-group": "tv"}}
    ),
    "volcano": (
        "scheduling.volcano.sh/v1beta1",
        {"annotations": {"scheduling.k8s.io/group-name": "tv"}},
    ),
    "kai": ("scheduling.run.ai/v2alpha2", {"annotations": {"pod-group-name": "tv"}}),
    "kubernetes": ("scheduling.k8s.io/v1alpha2", {"spec": in_group("tv")}),
}  # fmt: skip
"""By dialect: its version, and how a pod names the group."""


def group(dialect: str, least: int) -> Object:
    """The pod group `ml/tv`."""
    gang: Object = {"minMember": least}
    if dialect == "kubernetes":
        return pod_group("tv", least)
    return made.owner(GROUPS[dialect][0], "PodGroup", "tv", gang)


def job_in_group(story: Story, name: str, pods: int, dialect: str, *, is_indexed: bool) -> None:
    """A Job of pods with 1 GPU each that name the group `tv`."""
    about = {"subdomain": name} if is_indexed else {}
    spec = {"parallelism": pods, "completions": pods, "template": made.template(1, **about)}
    spec |= {"completionMode": "Indexed" if is_indexed else "NonIndexed"}
    story.server.put(made.owner(JOB, "Job", name, spec))
    told = GROUPS[dialect][1]
    for i in range(pods):
        story.server.make(
            f"{name}-{i}", 1, owner=(JOB, "Job", name), annotations=told.get("annotations", {}),
            labels=told.get("labels", {}) | ({INDEX: str(i)} if is_indexed else {}),
            spec=about | told.get("spec", {}),
        )  # fmt: skip


@pytest.mark.parametrize("dialect", GROUPS)
@pytest.mark.parametrize("is_late", [False, True])
@pytest.mark.parametrize("is_indexed", [False, True])
def test_two_jobs_in_one_pod_group_start_together(dialect: str, is_indexed: bool, is_late: bool):
    """2 and 4 pods of a group that needs 6, whenever that is declared: none starts before all."""
    story = Story(8)
    if not is_late:
        story.server.put(group(dialect, 6))
    job_in_group(story, "lead", 2, dialect, is_indexed=is_indexed)
    story.rest()
    assert story.bound() == {}
    job_in_group(story, "work", 4, dialect, is_indexed=is_indexed)
    if is_late:
        story.rest()
        assert story.bound() == {}
        story.server.put(group(dialect, 6))
    story.rest()
    assert len(story.bound()) == 6
    assert story.held() == {}
    world = story.scheduler.loop.world
    assert world.job_names[-1] == "ml/tv"
    story.server.put(group(dialect, 6), is_gone=True)
    story.server.put(group(dialect, 2))
    story.rest()
    assert story.scheduler.differ.lives.present("ml/tv") is not None, "what runs goes on as it is"


@pytest.mark.parametrize("least", [8, 0])
def test_a_group_that_changes_or_is_deleted_stops_no_job_that_runs(least: int):
    """A Job of 4 in a group of 4 runs; the group needs 8 then, or is gone; so after a restart."""
    story = Story(8)
    story.server.put(group("kai", 4))
    job_in_group(story, "train", 4, "kai", is_indexed=False)
    story.rest()
    before = story.bound()
    story.server.put(group("kai", least or 4), is_gone=not least)
    story.rest()
    assert story.bound() == before
    assert story.scheduler.differ.lives.present("ml/train") is not None
    story.scheduler = Scheduler(story.server, story.journal)
    spec = {"parallelism": 4, "completions": 4, "template": made.template(1)}
    story.server.put(made.owner(JOB, "Job", "train", spec | {"completionMode": "NonIndexed"}))
    if least:
        story.server.put(group("kai", least))
    story.rest()
    assert story.bound() == before


@pytest.mark.parametrize("dialect", GROUPS)
def test_a_job_whose_group_needs_no_more_than_it_makes_keeps_its_name(dialect: str):
    """As where the group was made for that Job, by a controller or by hand."""
    story = Story(8)
    story.server.put(group(dialect, 4))
    job_in_group(story, "train", 4, dialect, is_indexed=False)
    story.rest()
    assert len(story.bound()) == 4
    assert story.scheduler.loop.world.job_names[-1] == "ml/train"


def test_a_job_whose_pods_name_a_gang_without_a_size_waits():
    """A plain Job of 2 pods: bound alone each would hold a GPU and do nothing."""
    story = Story(8)
    job(story, "r6", 2, notes={"gang": "nn"})
    story.rest()
    assert story.bound() == {}
    assert story.held()["ml/nn"][0] == "MalformedGang"


@pytest.mark.parametrize("count", [1, 2])
def test_an_empty_name_of_a_gang_holds_the_pod(count: int):
    """Bare pods, and those of a Job with one pod or two: the annotation is named as what is odd."""
    story, notes = Story(8), {"gang": "", "gang-size": "4"}
    job(story, "j", count, notes=notes)
    story.server.make("bare", 1, annotations={f"tidemill/{key}": notes[key] for key in notes})
    story.server.make("fine", 1)
    story.rest()
    assert story.bound() == {"fine": "n0"}
    assert {reason for reason, _ in story.held().values()} == {"MalformedGang"}
    assert "tidemill/gang is empty" in story.held()["ml/bare"][1]


def test_the_deadline_of_a_job_bounds_the_gang_that_its_pods_name():
    """Each of two Jobs may run for an hour: so may the gang."""
    story, notes = Story(8), {"gang": "g", "gang-size": "4"}
    for name in ("a", "b"):
        job(story, name, 2, notes=notes, activeDeadlineSeconds=3600)
    story.rest()
    j, world = story.scheduler.differ.lives.present("ml/g"), story.scheduler.loop.world
    assert j is not None
    assert world.jobs.estimate_ms[j] == 3_600_000


@pytest.mark.parametrize(("is_indexed", "is_elastic"), [(False, False), (True, True)])
def test_only_an_indexed_job_has_a_scale(is_indexed: bool, is_elastic: bool):
    """The `completions` of another one can never be changed."""
    story, notes = Story(8), {"gang": "g", "gang-size": "4", "gang-least": "2"}
    view = story.scheduler.view
    view.heeds_scales = True
    job(story, "g", 4, notes=notes, is_indexed=is_indexed)
    story.rest()
    (unit,) = view.units()
    assert (sizes.of_unit(view, view.unit(unit)) is not None) == is_elastic
    assert len(story.bound()) == 4


def test_where_an_owner_or_a_pod_group_says_what_the_gang_is_the_annotation_is_told():
    """A JobSet's pods, and those of a pod group: placed by those, and the annotation is named."""
    story, notes = Story(8), {"tidemill/gang": "other", "tidemill/gang-size": "2"}
    one = {"name": "w", "replicas": 1, "template": {"spec": {
        "parallelism": 2, "completions": 2, "template": made.template(1)}}}  # fmt: skip
    above = ("jobset.x-k8s.io/v1alpha2", "JobSet", "set")
    story.server.put(made.owner(*above, {"replicatedJobs": [one]}))
    story.server.put(pod_group("pair", 2))
    for i in range(2):
        story.server.make(f"s{i}", 1, owner=above, annotations=notes)
        story.server.make(f"p{i}", 1, spec=in_group("pair"), annotations=notes)
    story.rest()
    assert len(story.bound()) == 4
    said = {unit.kind: words for unit, words in story.scheduler.differ.unread.items()}
    assert "the JobSet `ml/set` says which pods are one gang" in said["JobSet"][0]
    assert "the pod group `ml/pair`" in said["PodGroup"][0]


@pytest.mark.parametrize(("how", "is_said"), [("OrderedReady", True), ("Parallel", False)])
def test_a_set_that_makes_its_pods_in_turn_is_named_as_why_the_gang_never_comes(
    how: str, is_said: bool
):  # fmt: skip
    """One of three pods is there: the next is made when it runs, and it starts with the next."""
    story, above = Story(8), ("apps/v1", "StatefulSet", "ss")
    spec = {"replicas": 3, "podManagementPolicy": how, "template": made.template(1)}
    story.server.put(made.owner(*above, spec))
    story.server.make("ss-0", 1, owner=above, gang="ss", size=3)
    story.rest()
    reason, words = story.held()["ml/ss"]
    assert reason == "WaitingForGang"
    assert words.startswith("1 of the 3 pods of its gang are there")
    assert ("podManagementPolicy: Parallel" in words) == is_said
