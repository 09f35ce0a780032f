"""The policy of a live cluster as an object of it: read as the file is, by the same tables.

``definition`` is the CustomResourceDefinition. Its schema is made of the tables that the file is
read by, so a field that one of them knows the other knows too.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tidemill.cli.policy_file import PolicyFile, rules_of
from tidemill.model.errors import SpecError, TidemillError

if TYPE_CHECKING:
    from tidemill.live.kubernetes.scheduling.policy_object import WatchedPolicy
    from tidemill.live.kubernetes.scheduling.running import SchedulerRules

Object = dict[str, Any]
_KEPT = ("type", "minimum", "maximum", "minLength", "maxLength", "enum")
"""What of a schema is told to the API server; patterns are not in its dialect, and are checked when
the object is read."""


class PolicySource:
    """The rules of an object while there is one; those of the file before and after."""

    def __init__(self, file: PolicyFile, watched: "WatchedPolicy") -> None:
        self._file, self._watched = file, watched
        self._stamp: tuple[str, int] | None = None
        self._refused: tuple[str, int] | None = None
        """An object that could not be used when the scheduler was started."""
        self._holds = ""
        self.place: Mapping[str, str] = file.place

    def has_changed(self) -> bool:
        """Whether the object, or without one the file, is another than when it was read."""
        if self._watched.stamp != self._stamp:
            return True
        return self._watched.found is None and self._file.has_changed()

    def read(self) -> "SchedulerRules":
        """The rules as they are now."""
        from tidemill.twin.spec import read

        self._stamp = self._watched.stamp
        if self._watched.found is None or self._stamp == self._refused:
            return self._file.read()
        told = self._watched.found.get("spec")
        spec = dict(told) if isinstance(told, dict) else {}
        return rules_of(read.of_values(spec, f"SchedulingPolicy {self._watched.name}"))

    def settled(self, refused: TidemillError | None) -> None:
        """Say in the object what became of it, and in the log which of the two holds."""
        if refused is None:
            self._say_source()
        if self._watched.stamp != self._refused:
            self._watched.tell(refused)

    def _say_source(self) -> None:
        """Once, whose teams and quotas count, and whose do not, as both may name the same."""
        watched, file = self._watched, self._file.shown
        is_object = watched.found is not None and self._stamp != self._refused
        named = f"SchedulingPolicy {watched.name}"
        self.place = {"object": watched.name} if is_object else self._file.place
        holds = named if is_object else file
        if holds != self._holds and file:
            rest = f"`{file}` does not count while `{named}` is there" if is_object else ""
            watched.log("policy holds", of=holds, **({"said": rest} if rest else {}))
        self._holds = holds

    def begin(self) -> "SchedulerRules":
        """The first rules; an object that cannot be used says so, and those of the file hold."""
        try:
            return self.read()
        except SpecError as error:
            self.settled(error)
            self._refused = self._watched.stamp
            return self._file.read()


def definition() -> list[Object]:
    """The kind, and who may read it and say what became of it."""
    from tidemill.live.kubernetes.scheduling import policy_object as known

    names = {"kind": known.KIND, "listKind": f"{known.KIND}List", "plural": known.PLURAL,
             "singular": known.KIND.lower()}  # fmt: skip
    version = {
        "name": known.VERSION, "served": True, "storage": True, "subresources": {"status": {}},
        "additionalPrinterColumns": [
            {"name": "Accepted", "type": "string",
             "jsonPath": f".status.conditions[?(@.type=='{known.ACCEPTED}')].status"},
            {"name": "Message", "type": "string", "priority": 1,
             "jsonPath": f".status.conditions[?(@.type=='{known.ACCEPTED}')].message"},
        ],
        "schema": {"openAPIV3Schema": {
            "type": "object", "required": ["spec"],
            "description": "How Tidemill places work, and who may use how much.",
            "properties": {"spec": _spec(), "status": _STATUS},
        }},
    }  # fmt: skip
    kind = {
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{known.PLURAL}.{known.GROUP}"},
        "spec": {"group": known.GROUP, "scope": "Cluster", "names": names, "versions": [version]},
    }  # fmt: skip
    rules = [
        {"apiGroups": [known.GROUP], "resources": [known.PLURAL],
         "verbs": ["get", "list", "watch"]},
        {"apiGroups": [known.GROUP], "resources": [f"{known.PLURAL}/status"], "verbs": ["patch"]},
    ]  # fmt: skip
    role, of = "tidemill-scheduler-policy", "rbac.authorization.k8s.io"
    return [
        kind,
        {"apiVersion": f"{of}/v1", "kind": "ClusterRole", "metadata": {"name": role},
         "rules": rules},
        {"apiVersion": f"{of}/v1", "kind": "ClusterRoleBinding", "metadata": {"name": role},
         "roleRef": {"apiGroup": of, "kind": "ClusterRole", "name": role},
         "subjects": [{"kind": "ServiceAccount", "name": "scheduler", "namespace": "tidemill"}]},
    ]  # fmt: skip


def _spec() -> Object:
    from tidemill.twin.spec.tables import TeamTable, TierTable

    return {
        "type": "object",
        "properties": {
            "policy": {"type": "object", "properties": _policy_fields()},
            "team": {"type": "array", "items": _table(TeamTable)},
            "tier": {"type": "array", "items": _table(TierTable)},
        },
    }


def _table(kind: type) -> Object:
    import msgspec

    _, (made, *_) = _components(msgspec.json.schema_components([kind]))
    fields = {name: _field(one) for name, one in made["properties"].items()}
    return {"type": "object", "required": made["required"], "properties": fields}


def _components(told: tuple[Any, dict[str, Any]]) -> tuple[Any, list[Object]]:
    return told[0], list(told[1].values())


def _policy_fields() -> Object:
    """As a file has them: what is in milliseconds is a length of time in words, without ``_ms``."""
    import msgspec

    from tidemill.model.policy import Policy

    _, (made,) = _components(msgspec.json.schema_components([Policy]))
    found = Object()
    for name, one in made["properties"].items():
        is_time = name.endswith("_ms")
        told = {"type": "string"} if is_time else one
        if is_time and one.get("type") == "array":
            told = {"type": "array", "items": {"type": "string"}}
        found[name.removesuffix("_ms")] = _field(told)
    return found


def _field(one: Object) -> Object:
    """One field in the dialect of the API server; what may be of several types is not looked at."""
    if "anyOf" in one:
        return {"x-kubernetes-preserve-unknown-fields": True}
    found = {key: one[key] for key in _KEPT if key in one}
    if "enum" in one:
        found = {"type": "string", "enum": one["enum"]}
    if one.get("type") == "array":
        found["items"] = _field(one["items"])
    if "additionalProperties" in one:
        found["additionalProperties"] = _field(one["additionalProperties"])
    return found


_STATUS: Object = {
    "type": "object",
    "properties": {"conditions": {"type": "array", "items": {
        "type": "object", "required": ["type", "status"],
        "properties": {
            "type": {"type": "string"}, "status": {"type": "string"},
            "reason": {"type": "string"}, "message": {"type": "string"},
            "observedGeneration": {"type": "integer", "format": "int64"},
            "lastTransitionTime": {"type": "string", "format": "date-time"},
        },
    }}},
}  # fmt: skip
