"""What a scheduler has to be allowed beside reading, and which of it the API server would refuse.

The same rules as those of deploy/kubernetes, which a test compares. The server is asked what it
would say (SelfSubjectAccessReview), which changes nothing.
"""

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from tidemill.live.kubernetes import dra
from tidemill.live.kubernetes.api.writing import ApiWriter
from tidemill.live.kubernetes.scheduling import policy_object
from tidemill.model.errors import BackendError

REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
SCALED = {
    "apps": ("deployments", "replicasets", "statefulsets"),
    "kubeflow.org": ("pytorchjobs", "tfjobs", "xgboostjobs", "paddlejobs", "mpijobs", "jaxjobs"),
}
"""By API group: kinds of owners that have a scale."""


class Right(NamedTuple):
    """One verb for one resource; ``file``: what of deploy/kubernetes allows it."""

    group: str
    resource: str
    verb: str
    file: str = "schedule.yaml"
    namespace: str = ""
    """"": in all."""
    name: str = ""
    """Of the one object that it is for; "": of any."""

    @property
    def rule(self) -> str:
        """The rule of a role that allows it."""
        where = f" (Role in namespace {self.namespace})" if self.namespace else ""
        of = f' resourceNames: ["{self.name}"],' if self.name else ""
        return (
            f'apiGroups: ["{self.group}"], resources: ["{self.resource}"],{of}'
            f' verbs: ["{self.verb}"]{where}'
        )


class RightsAsked(NamedTuple):
    """What a scheduler is to do beside placing pods."""

    lease: str = ""
    """NAMESPACE/NAME; "": it holds none."""
    may_drain: bool = False
    may_resize: bool = False
    has_policy_object: bool = False


ALWAYS = (
    Right("", "pods/binding", "create"), Right("", "pods/eviction", "create"),
    Right("", "pods/status", "patch"), Right("events.k8s.io", "events", "create"),
)  # fmt: skip
OF_CLAIMS = tuple(
    Right(dra.GROUP, f"resourceclaims{part}", "patch") for part in ("", "/status", "/binding")
)
TO_DRAIN = (Right("", "nodes", "patch", "drain.yaml"),)
TO_RESIZE = (
    Right("batch", "jobs", "patch", "resize.yaml"),
    *(Right(group, f"{plural}/scale", "patch", "resize.yaml")
      for group, plurals in SCALED.items() for plural in plurals),
)  # fmt: skip
OF_POLICY = (
    *(Right(policy_object.GROUP, policy_object.PLURAL, verb, "policy.yaml")
      for verb in ("get", "list", "watch")),
    Right(policy_object.GROUP, f"{policy_object.PLURAL}/status", "patch", "policy.yaml"),
)  # fmt: skip


def needed(asked: RightsAsked, groups: Iterable[str]) -> list[Right]:
    """All that it has to be allowed; ``groups``: those that the server has."""
    there, (namespace, _, name) = {*groups}, asked.lease.partition("/")
    found = [*ALWAYS, *(OF_CLAIMS if dra.GROUP in there else ())]
    if asked.lease:
        of = {"get": name, "create": "", "update": name}  # what is created has no name before it
        found += [Right("coordination.k8s.io", "leases", verb, namespace=namespace, name=of[verb])
                  for verb in of]  # fmt: skip
    found += TO_DRAIN if asked.may_drain else ()
    found += [one for one in TO_RESIZE if asked.may_resize and one.group in there]
    found += OF_POLICY if asked.has_policy_object else ()
    return found


class _ReviewStatus(msgspec.Struct):
    allowed: bool = False


class _Review(msgspec.Struct):
    status: _ReviewStatus


async def lacking(writer: ApiWriter, rights: Iterable[Right]) -> list[Right]:
    """Those that the server does not give; ``BackendError`` if it does not say."""
    found = list[Right]()
    for right in rights:
        resource, _, sub = right.resource.partition("/")
        about = {"group": right.group, "resource": resource, "subresource": sub,
                 "verb": right.verb, "namespace": right.namespace, "name": right.name}  # fmt: skip
        body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
                "spec": {"resourceAttributes": about}}  # fmt: skip
        answer = await writer.send("POST", REVIEWS, msgspec.json.encode(body))
        if not answer.is_done:
            raise BackendError(
                f"asked what is allowed; found {answer.status} {answer.said}",
                hint="every account that is known may ask that: is the token still good?",
            )
        if not msgspec.json.decode(answer.body, type=_Review).status.allowed:
            found.append(right)
    return found
