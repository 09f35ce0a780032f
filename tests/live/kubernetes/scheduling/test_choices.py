"""Claims that leave a choice (`firstAvailable`), of pods that were given what none would be now."""

import json
from pathlib import Path
from typing import Any

from tests.live.kubernetes import made
from tests.live.kubernetes.scheduling.pretended import CLAIMED, Scheduler
from tests.live.kubernetes.scheduling.test_reading import Read
from tests.rigs.kubernetes import wanted
from tidemill.live.kubernetes import pods
from tidemill.live.kubernetes.scheduling import units
from tidemill.model.rows import Role, Shape

JOB = ("batch/v1", "Job", "fj")
SPEC = {"devices": {"requests": [{"name": "gpu", "firstAvailable": [
    {"name": f"of-{count}", "deviceClassName": wanted.DRIVER, "count": count} for count in (3, 1)
]}]}}  # fmt: skip
TEMPLATE = {
    "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate",
    "metadata": {"name": "t", "namespace": "ml", "uid": "t"}, "spec": {"spec": SPEC},
}  # fmt: skip
CLAIMS = [{"name": "gpu", "resourceClaimTemplateName": "t"}]


def test_a_gang_that_was_given_less_than_would_be_now_is_found_as_it_is(tmp_path: Path):
    """Two pods got one device each, where no machine had three; one that has joins. A scheduler
    that begins anew finds them at work, and places others.
    """
    story = Read(tmp_path / "live.sqlite")
    story.server.put_node("d0", 2)
    story.server.put_node("d1", 2)
    begin(story)
    for i in range(2):
        come(story, f"p{i}", i)
    story.rest()
    assert all(one["spec"].get("nodeName") for one in story.server.pods.values())
    assert given(story) == [1, 1]
    story.server.put_node("d2", 4)
    story.rest()
    story.scheduler = Scheduler(story.server, story.journal)
    begin(story)
    story.rest()
    assert given(story) == [1, 1]
    story.server.make("other", 1)
    story.server.put_node("plain", 8)
    story.rest()
    assert story.server.pods["ml", "other"]["spec"].get("nodeName") == "plain"
    story.journal.close()


def begin(story: Read) -> None:
    """The Job and its template, which pods are made of."""
    template = made.template(0, schedulerName="tidemill", resourceClaims=CLAIMS, subdomain="fj")
    told = {"completions": 2, "parallelism": 2, "completionMode": "Indexed", "template": template}
    story.server.put(TEMPLATE)
    story.server.put(made.owner(*JOB, told))


def come(story: Read, name: str, index: int) -> None:
    """A pod of the Job, with a claim that was made of the template."""
    labels = {"batch.kubernetes.io/job-completion-index": str(index)}
    story.server.make(name, 1, owner=JOB, labels=labels, resource=CLAIMED)
    pod = json.loads(json.dumps(story.server.pods["ml", name]))
    pod["spec"] |= {"resourceClaims": CLAIMS, "subdomain": "fj"}
    pod["status"]["resourceClaimStatuses"] = [{"name": "gpu", "resourceClaimName": f"c-{name}"}]
    claim = json.loads(json.dumps(story.server.claims["ml", f"c-{name}"])) | {"spec": SPEC}
    story.server.pods["ml", name], story.server.claims["ml", f"c-{name}"] = pod, claim
    story.server.news.append(("Pod", ("ml", name), pod, False))
    story.server.news.append(("ResourceClaim", ("ml", f"c-{name}"), claim, False))


def given(story: Read) -> list[int]:
    """How many devices each claim has."""
    rows: list[dict[str, Any]] = [*story.server.claims.values()]
    found = [one.get("status", {}).get("allocation", {}).get("devices", {}) for one in rows]
    return [len(one.get("results", ())) for one in found]


def test_a_role_that_a_job_was_not_told_to_have_counts_as_one_that_requests_as_much():
    """A journal that has a job of one role, and a look that shows two: nothing ends."""
    told, shown = shape(1), shape(3, 1)
    pod = pods.read(made.pod("p0", 1))
    now = units.UnitNow(shown, [(pod, (1, 4))], [(pod, 1), (pod, 0)], False, False, None)
    found = units.as_told(now, told)
    assert (found.held, found.waits) == ([(pod, (0, 4))], [(pod, 0), (pod, 0)])
    assert units.as_told(now, shown) is now


def shape(*each: int) -> Shape:
    """Roles of one replica with so many devices."""
    return Shape("ml", tuple(Role(f"r{i}", 1, n) for i, n in enumerate(each)))
