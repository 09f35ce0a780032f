"""A pretended API server in memory, and a scheduler on it: the loop, comparison, sender are real.

It keeps pods, nodes and claims, loses answers, is slow to tell of changes, and takes evictions as
owners do: a new pod comes. Budgets let so many go as they say. Devices are whole, MIG instances, or
given out by claims. Which binds and allocations a killed scheduler had sent is up to chance.
"""

import asyncio
import json
import random
from collections import Counter
from typing import Any

from tests.live.kubernetes import made
from tests.rigs.kubernetes import wanted
from tidemill.engine.loop import Loop
from tidemill.journal import Journal
from tidemill.journal.replay import rebuild
from tidemill.live.kubernetes import budgets, dra, fields
from tidemill.live.kubernetes.api.writing import Written
from tidemill.live.kubernetes.scheduling import keeping
from tidemill.live.kubernetes.scheduling.answers import ServerRefusals
from tidemill.live.kubernetes.scheduling.backend import KubernetesBackend
from tidemill.live.kubernetes.scheduling.differ import Differ
from tidemill.live.kubernetes.scheduling.readers import READ
from tidemill.live.kubernetes.scheduling.resizing import Resizer
from tidemill.live.kubernetes.scheduling.running import live_policy
from tidemill.live.kubernetes.scheduling.sending import Sender
from tidemill.live.kubernetes.scheduling.view import ClusterView, Key
from tidemill.live.kubernetes.watching.kinds import ServedKind
from tidemill.live.prices.rules import PriceRule, unpriced
from tidemill.model.policy import Policy

Object = dict[str, Any]
OWNER = ("apps/v1", "StatefulSet", "owner")
GPU, MIG = "nvidia.com/gpu", "nvidia.com/mig-1g.10gb"
CLAIMED = ""
"""Instead of a resource: devices by claim."""


class Killed(BaseException):
    """The scheduler dies here."""


class PretendedServer:
    """Pods and nodes in memory; what changes is told when somebody delivers it."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.pods: dict[Key, Object] = {}
        self.nodes: dict[str, Object] = {}
        self.claims: dict[Key, Object] = {}
        self.slices: dict[str, Object] = {}
        self.budgets: dict[Key, Object] = {}
        self.owners: dict[tuple[str, str], Object] = {}
        """What has a scale, by what its path calls its kind, and its name."""
        self.news: list[tuple[str, Key, Object, bool]] = []
        self.asked: list[tuple[str, str]] = []
        """Pods whose binding or eviction was asked for, and which of the two."""
        self.told: dict[str, Object] = {}
        """What the status of each pod was patched to last."""
        self.happened: list[Object] = []
        """Events."""
        self.forbidden = ""
        """What of a pod nobody may do: `binding`, `eviction`."""
        self.shown: dict[Key, Object] = {}
        """Pods and nodes as they were last told; nodes have no namespace."""
        self.over: list[str] = []
        """Binds to nodes that had too few GPUs for it, by all that was told."""
        self.faults = 0
        self.kill_after = -1
        self.slow: asyncio.Event | None = None
        """Until it is set no answer to a bind comes, though what was asked for is done and told."""
        self.is_late = False
        """Whether the claims of pods that are gone stay until ``take_back``."""
        self.backs_off = False
        """Whether owners wait before they make pods in place of those that were evicted."""
        self._left: list[Key] = []
        self._uid = self._version = 0

    def put_node(
        self, name: str, gpus: int, *, unschedulable: bool = False, sick: int = 0
    ) -> None:  # fmt: skip
        """A node; by its name it has MIG instances too, gives its devices out by claim, or cuts
        them (`c`). So many ``sick`` GPUs of a device plugin are not advertised.
        """
        amounts: dict[str, str | None] = {MIG: "7"} if name.startswith("m") else {}
        if name.startswith("c"):
            amounts = {GPU: None}
            for one in wanted.partitioned(name, gpus):
                self.slices[one["metadata"]["name"]] = one
                self.news.append(("ResourceSlice", ("", one["metadata"]["name"]), one, False))
        if name.startswith("d"):
            amounts = {GPU: None}
            some = [wanted.device(f"gpu-{d}") for d in range(gpus)]
            self.slices[name] = wanted.resource_slice(name, some)
            self._uid += 1
            self.slices[name]["spec"]["pool"]["generation"] = self._uid
            self.news.append(("ResourceSlice", ("", name), self.slices[name], False))
        self.nodes[name] = made.node(
            name, gpus - sick, unschedulable=unschedulable, amounts=amounts,
            capacity={GPU: str(gpus)} if GPU not in amounts else {},
        )  # fmt: skip
        self.news.append(("Node", ("", name), self.nodes[name], False))

    def size(self, name: str, resource: str = GPU, of: str = "capacity") -> int:
        """How many units of a resource a node has; ``of``: or as many as are `allocatable`."""
        if resource == CLAIMED:
            slices = self.slices.get(name)
            return len(slices["spec"]["devices"]) if slices else 0
        return int(self.nodes[name]["status"][of].get(resource, 0))

    def drop_node(self, name: str) -> None:
        self.news.append(("Node", ("", name), self.nodes.pop(name), True))
        if name in self.slices:
            self.news.append(("ResourceSlice", ("", name), self.slices.pop(name), True))
        for key, one in list(self.pods.items()):
            if one["spec"].get("nodeName") == name:
                self.delete(key)

    def make(
        self, name: str, gpus: int, *, gang: str = "", size: int = 1, on: str = "",
        resource: str = GPU, **rest: Any,
    ) -> None:  # fmt: skip
        """A pod of ours, or one of another scheduler's on a node; ``rest`` as ``made.pod``.

        Annotated `rig/devices` is what the devices of its claim have to be like.
        """
        told = {"tidemill/gang": gang, "tidemill/gang-size": str(size), "rig/gpus": str(gpus)}
        told |= {"rig/resource": resource}
        told = {key: value for key, value in told.items() if gang or key.startswith("rig")}
        self._uid += 1
        spec: Object = ({} if on else {"schedulerName": "tidemill"}) | rest.pop("spec", {})
        told |= rest.pop("annotations", {})
        if resource == CLAIMED:
            spec["resourceClaims"] = [{"name": "gpu", "resourceClaimName": f"c-{name}"}]
        counts = {resource: gpus} if resource else {}
        given = {"owner": OWNER, "cpu": "1"} | rest
        one = made.pod(name, counts, annotations=told, spec=spec, on=on, **given)
        one["metadata"]["uid"] = f"u{self._uid}"
        if resource == CLAIMED:
            such = wanted.claim_spec(gpus, *filter(None, [told.get("rig/devices")]))
            self._claim(f"c-{name}", such, on, one)
        self._put((one["metadata"]["namespace"], name), one)

    def resize(self, key: Key, **amounts: str) -> None:
        """A pod that runs requests something else from now on."""
        one = json.loads(json.dumps(self.pods[key]))
        one["spec"]["containers"][0]["resources"]["requests"] |= amounts
        self._put(key, one)

    def annotate(self, name: str, **told: str) -> None:
        """Annotations of a pod of ours by their names after `tidemill/`; `_` is `-`."""
        key = ("ml", name)
        news = {f"tidemill/{word.replace('_', '-')}": told[word] for word in told}
        one = self.pods[key]
        about = one["metadata"] | {"annotations": one["metadata"]["annotations"] | news}
        self._put(key, one | {"metadata": about})

    def put(self, one: Object, *, is_gone: bool = False) -> None:
        """An object of another kind came, changed, or is gone."""
        key = (one["metadata"]["namespace"], one["metadata"]["name"])
        self.news.append((one["kind"], key, one, is_gone))
        if one["kind"] == "PodDisruptionBudget":
            self.budgets[key] = one
            if is_gone:
                del self.budgets[key]
        if "replicas" in one.get("spec", {}):
            self.owners[f"{one['kind'].lower()}s", key[1]] = one

    def _claim(self, name: str, spec: Object, on: str, user: Object) -> None:
        """A claim of a pod; another scheduler has allocated it before it binds."""
        one = wanted.claim(name, spec, namespace=user["metadata"]["namespace"])
        self._uid += 1
        one["metadata"] |= {"uid": f"c{self._uid}"}
        if on:
            held = self.held()
            free = [d["name"] for d in self.slices[on]["spec"]["devices"]
                    if not held[on, d["name"]]]  # fmt: skip
            one["status"] = _allocation(on, free[: gpus(user)], user)
        self._put_claim(one)

    def _put_claim(self, one: Object) -> None:
        self._uid += 1
        one["metadata"]["resourceVersion"] = str(self._uid)
        key = (one["metadata"]["namespace"], one["metadata"]["name"])
        self.claims[key] = one
        self.news.append(("ResourceClaim", key, json.loads(json.dumps(one)), False))

    def held(self) -> Counter[tuple[str, str]]:
        """How many claims hold each device, by machine and name."""
        return Counter(
            (row["pool"], row["device"]) for one in self.claims.values() for row in results_of(one)
        )

    def delete(self, key: Key) -> None:
        """A pod is gone; its owner makes another in its place, if it was ours."""
        one = self.drop(key)
        if one["spec"]["schedulerName"] == "tidemill":
            told = one["metadata"]["annotations"]
            self._uid += 1
            self.make(
                f"{key[1].partition('.')[0]}.{self._uid}", gpus(one), resource=told["rig/resource"],
                gang=told.get("tidemill/gang", ""), size=int(told.get("tidemill/gang-size", 1)),
                labels=one["metadata"]["labels"], spec={"priority": one["spec"].get("priority", 0)},
                annotations={key: told[key] for key in told if key == "rig/devices"},
            )  # fmt: skip

    def drop(self, key: Key) -> Object:
        """A pod is gone, and its claim with it."""
        one = self.pods.pop(key)
        self.news.append(("Pod", key, one, True))
        self._left.append((key[0], f"c-{key[1]}"))
        if not self.is_late:
            self.take_back()
        return one

    def take_back(self) -> None:
        """The cluster's controllers delete the claims of pods that are gone."""
        for claim in self._left:
            if claim in self.claims:
                self.news.append(("ResourceClaim", claim, self.claims.pop(claim), True))
        self._left.clear()

    def finish(self, key: Key) -> None:
        self.drop(key)

    def collect(self) -> None:
        """Pods on nodes that are not there are deleted, as the cluster's own collector does."""
        for key, one in list(self.pods.items()):
            if one["spec"].get("nodeName", next(iter(self.nodes))) not in self.nodes:
                (self.drop if self.backs_off else self.delete)(key)

    def deliver(self, view: ClusterView, count: int) -> None:
        for kind, key, one, is_gone in self.news[:count]:
            group = one["apiVersion"].rpartition("/")[0]
            row: Any = READ[group, kind](one)
            of = ServedKind(group, "v1", kind, f"{kind.lower()}s")
            if is_gone and kind == "Pod":
                row = row.deleted(made.BEGIN_MS)
            view.take(of, key, row, is_gone)
            if kind in ("Pod", "Node"):
                self.shown[key] = one
                if is_gone:
                    del self.shown[key]
        del self.news[:count]

    async def send(self, method: str, path: str, body: bytes = b"", kind: str = "") -> Written:
        del kind
        await asyncio.sleep(0)
        if self.faults and self.chance.random() < 0.5:
            self.faults -= 1
            if self.chance.random() < 0.5:
                return Written(self.chance.choice((429, 500)), b"{}")
            if self.chance.random() < 0.5:
                self._do(method, path, body)
            raise OSError("lost")
        answer = self._do(method, path, body)
        if self.slow is not None and path.endswith("/binding"):
            await self.slow.wait()
        return answer

    def _do(self, method: str, path: str, body: bytes) -> Written:
        part = path.split("/")
        if part[2] == "events.k8s.io":
            self.happened.append(json.loads(body))
            return Written(201, b"{}")
        if part[-1] == "scale":
            return self._scale((part[6], part[7]), json.loads(body))
        if "resourceclaims" in part:
            return self._do_claim(method, (part[5], part[7]), body)
        key = (part[4], part[6])
        one = self.pods.get(key)
        if one is None:
            return Written(404, b"{}")
        if method == "GET":
            return Written(200, json.dumps(one).encode())
        what, _, query = part[-1].partition("?")
        if method == "PATCH":
            return self._patch(key, one, json.loads(body))
        return self._change(key, one, what, json.loads(body), is_dry="dryRun" in query)

    def _scale(self, key: tuple[str, str], change: list[Object]) -> Written:
        """Another number of pods, made from the one that it has; who makes them is not here."""
        if self.forbidden == "scale":
            return Written(403, b'{"message": "forbidden here"}')
        one, (test, *_, wanted) = self.owners[key], change
        if one["spec"]["replicas"] != test["value"]:
            return Written(422, b"{}")
        self.asked.append((key[1], str(wanted["value"])))
        self.put(one | {"spec": {**one["spec"], "replicas": wanted["value"]}})
        return Written(200, b"{}")

    def _patch(self, key: Key, one: Object, told: Object) -> Written:
        if told["metadata"]["resourceVersion"] != one["metadata"]["resourceVersion"]:
            return Written(409, b"{}")
        self.told[key[1]] = told["status"]
        return Written(200, b"{}")

    def _change(self, key: Key, one: Object, what: str, told: Object, *, is_dry: bool) -> Written:
        """Bind or evict a pod, or say what would come of it."""
        is_dry = is_dry or "dryRun" in told.get("deleteOptions", {})
        if not is_dry:
            self.asked.append((key[1], what))
        if what == self.forbidden:
            return Written(403, b'{"message": "forbidden here"}')
        if what == "eviction":
            return self._evict(key, one, is_dry=is_dry)
        if one["spec"].get("nodeName") or told["metadata"]["uid"] != one["metadata"]["uid"]:
            return Written(409, b"{}")
        if is_dry:
            return Written(201, b"{}")
        self._bind(key, told["target"]["name"])
        self._may_be_killed()
        return Written(201, b"{}")

    def _evict(self, key: Key, one: Object, *, is_dry: bool) -> Written:
        for budget in self.budgets.values():
            if budgets.read(budget).selects(key[0], one["metadata"].get("labels", {})):
                if not budget["status"]["disruptionsAllowed"]:
                    return Written(429, b'{"message": "would violate the budget"}')
                budget["status"]["disruptionsAllowed"] -= not is_dry
        if not is_dry:
            (self.drop if self.backs_off else self.delete)(key)
        return Written(201, b"{}")

    def _may_be_killed(self) -> None:
        self.kill_after -= 1
        if self.kill_after == 0:
            raise Killed

    def _do_claim(self, method: str, key: Key, body: bytes) -> Written:
        """As the API does: only of the version that was read, and nothing given twice to it."""
        one = self.claims.get(key)
        if one is None:
            return Written(404, b"{}")
        if method == "GET":
            return Written(200, json.dumps(one).encode())
        told, before = json.loads(body), one["metadata"]
        if told["metadata"]["resourceVersion"] != before["resourceVersion"]:
            return Written(409, b"{}")
        one = json.loads(json.dumps(one))
        one["metadata"]["finalizers"] = [dra.FINALIZER]
        if "status" in told:
            if told["status"]["allocation"] and one.get("status", {}).get("allocation"):
                return Written(422, b"{}")
            one["status"] = {k: v for k, v in told["status"].items() if v is not None}
        self._put_claim(one)
        self._may_be_killed()
        return Written(200, json.dumps(one).encode())

    def _count(self, key: Key, name: str) -> None:
        """Whether a pod that is being bound finds its GPUs on a node, by all that was told."""
        wanted = resource_of(self.pods[key])
        here = [one for at, one in self.pods.items()
                if one["spec"].get("nodeName") == name and resource_of(one) == wanted
                and one["status"].get("phase") not in ("Succeeded", "Failed")
                and (at in self.shown or one["spec"]["schedulerName"] == "tidemill")]  # fmt: skip
        used = sum(map(gpus, [*here, self.pods[key]]))
        row = self.shown.get(("", name))  # it may be gone by now
        most = row["status"]["allocatable"].get(wanted, 0) if row else used
        if used > int(most) and wanted != CLAIMED:
            self.over.append(f"{key[1]} on {name}: {used} of {most}")
        self._count_cores(key, name)

    def _count_cores(self, key: Key, name: str) -> None:
        """The same of cores, of all pods."""
        here = [one for at, one in self.pods.items()
                if one["spec"].get("nodeName") == name
                and one["status"].get("phase") not in ("Succeeded", "Failed")
                and (at in self.shown or one["spec"]["schedulerName"] == "tidemill")]  # fmt: skip
        used = sum(map(cores, [*here, self.pods[key]]))
        row = self.shown.get(("", name))
        most = row["status"]["allocatable"].get("cpu", "0") if row else ""
        if most.isdecimal() and used > int(most):
            self.over.append(f"{key[1]} on {name}: {used} cores")

    def _bind(self, key: Key, node: str) -> None:
        self._count(key, node)
        one = self.pods[key]
        bound = made.pod(key[1], 1, on=node)
        self._put(key, one | {
            "spec": {**one["spec"], "nodeName": node}, "status": bound["status"],
        })  # fmt: skip

    def _put(self, key: Key, one: Object) -> None:
        self._version += 1
        version = {"resourceVersion": str(self._version)}
        one = one | {"metadata": one["metadata"] | version}
        self.pods[key] = one
        self.news.append(("Pod", key, one, False))


class Scheduler:
    """A scheduler in the making: from a journal and a list of what is there."""

    def __init__(
        self, server: PretendedServer, journal: Journal, policy: Policy | None = None,
        price_of: PriceRule = unpriced,
    ) -> None:  # fmt: skip
        self.server = server
        self.view = ClusterView("tidemill")
        world = rebuild(journal)
        self.sender = Sender(server, self.view, lambda: True, self._settled)  # type: ignore[arg-type]
        self.differ = Differ(world, self.view, price_of, self.sender.is_being_sent)
        self.differ.begins_ms = made.BEGIN_MS
        keeping.names(self.differ, journal)
        self.refusals = ServerRefusals(self.differ, self.sender, lambda *_, **__: None)
        self.clock = world.now_ms
        self.backend = KubernetesBackend(
            world, self.view, self.differ, self.sender, lambda: self.clock
        )
        self.differ.cutting.policy = live_policy(policy or Policy())
        self.loop = Loop(world, live_policy(policy or Policy()), self.backend, journal)
        self.backend.on_kept = self.loop.forget
        self.resizer = Resizer(server, self.view, lambda: True, lambda _: None,  # type: ignore[arg-type]
                               lambda *_, **__: None)  # fmt: skip
        server.collect()
        server.news = [("DeviceClass", ("", "all"), wanted.device_class(), False)]
        server.news += [("ResourceClaim", key, json.loads(json.dumps(one)), False)
                        for key, one in server.claims.items()]  # fmt: skip
        server.news += [("Pod", key, one, False) for key, one in server.pods.items()]
        server.news += [("Node", ("", name), one, False) for name, one in server.nodes.items()]
        server.news += [("ResourceSlice", ("", name), one, False)
                        for name, one in server.slices.items()]  # fmt: skip
        server.news += [("PodDisruptionBudget", *one, False) for one in server.budgets.items()]
        server.deliver(self.view, len(server.news))
        self.view.look_at_all()

    def _settled(self, j: int, is_as_asked: bool) -> None:
        self.differ.settle(j, is_as_asked=is_as_asked)

    def let_resize(self) -> None:
        """Owners of gangs may be asked for another number of pods."""
        self.differ.elastic.let_resize()
        self.backend.resizer = self.resizer

    def beat(self) -> None:
        self.clock += 1000
        self.differ.elastic.look_at_overdue(self.clock)
        if self.backend.is_due:
            self.loop.beat(self.backend.next_ms())
            self.loop.commit()

    async def rest(self) -> None:
        """Beat and wait until nothing is left to do."""
        for _ in range(60):
            self.refusals.take()
            self.beat()
            while not (self.sender.is_idle and self.resizer.is_idle):
                await asyncio.sleep(0)
                for task in list(self.sender._tasks):
                    if task.done() and isinstance(task.exception(), Killed):
                        raise Killed
            self.server.collect()
            self.server.deliver(self.view, len(self.server.news))
            if not self.view.is_changed and not self.sender.put_off and not self.sender.refusals:
                return
        raise AssertionError("it does not come to rest")


def _allocation(node: str, devices: list[str], user: Object) -> Object:
    """As another scheduler writes it."""
    results = [{"request": "gpu", "driver": wanted.DRIVER, "pool": node, "device": one}
               for one in devices]  # fmt: skip
    me = {"resource": "pods", "name": user["metadata"]["name"], "uid": user["metadata"]["uid"]}
    return {"allocation": {"devices": {"results": results}}, "reservedFor": [me]}


def results_of(claim: Object) -> list[Object]:
    given = claim.get("status", {}).get("allocation") or {"devices": {"results": []}}
    found: list[Object] = given["devices"]["results"]
    return found


def gpus(one: Object) -> int:
    """What a pod requests, of whatever resource."""
    return int(one["metadata"]["annotations"]["rig/gpus"])


def cores(one: Object) -> float:
    """What a pod requests of them."""
    requests = one["spec"]["containers"][0]["resources"].get("requests", {})
    return fields.quantity(requests.get("cpu", 0))


def resource_of(one: Object) -> str:
    """Which resource it requests."""
    found: str = one["metadata"]["annotations"]["rig/resource"]
    return found
