"""A policy that is an object of a real cluster: validated, watched, and told what became of it."""

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.cli.shell import tidemill
from tests.conftest import ROOT
from tests.live.kubernetes.beside import shown
from tests.live.kubernetes.scheduling.test_guide import block
from tests.live.kubernetes.scheduling.test_saying import told
from tests.live.kubernetes.test_access import plain
from tests.rigs.kubernetes.cluster import Cluster
from tests.rigs.kubernetes.scheduled import OURS, scheduling
from tests.rigs.kubernetes.wanted import node, pod
from tidemill.cli.policy_object import definition
from tidemill.live.kubernetes.api.client import ApiRefusal
from tidemill.live.kubernetes.scheduling.policy_object import WatchedPolicy
from tidemill.model.policy import Policy
from tidemill.twin.spec import read

FILE = ROOT / "deploy" / "kubernetes" / "policy.yaml"
PATH = "/apis/tidemill.dev/v1alpha1/schedulingpolicies"
MERGE = "application/merge-patch+json"


@pytest.fixture
def known(rig: Cluster) -> Cluster:
    """A real Kubernetes that has the kind."""
    rig.kubectl("apply", "-f", str(FILE))
    rig.wait_for("the kind is served", lambda: rig.try_to("GET", PATH)[0] == 200)
    return rig


def wanted(most: int) -> dict[str, Any]:
    """A policy with a maximum quota."""
    team = {"name": "ml", "maximum": {"H100": most}}
    return {"apiVersion": "tidemill.dev/v1alpha1", "kind": "SchedulingPolicy",
            "metadata": {"name": "fleet"}, "spec": {"team": [team]}}  # fmt: skip


def accepted(rig: Cluster) -> tuple[str, str, int]:
    """What its status says, and of which generation."""
    found = rig.ask("GET", f"{PATH}/fleet").get("status", {}).get("conditions", [])
    one = found[0] if found else {}
    return one.get("status", ""), one.get("message", ""), one.get("observedGeneration", 0)


def why(journal: str, job: str) -> str:
    """What is printed of a job, beside the scheduler that writes."""
    return tidemill("why", job, "-j", journal).out


def test_a_server_that_says_later_is_asked_again():
    """Just after its kind was applied the server says 429; what it says otherwise ends it."""
    said = [b"429 Too Many Requests", b"503 Unavailable", b"200 OK"]
    asked = list[bytes]()

    served = list[asyncio.Task[Any]]()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        served.append(task)
        body = b'{"metadata":{"resourceVersion":"1"},"items":[{"metadata":{"uid":"u"}}]}'
        with suppress(asyncio.IncompleteReadError, OSError):
            while b"watch=true" not in (one := await reader.readuntil(b"\r\n\r\n")):
                asked.append(one)
                writer.write(
                    b"HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n" % (said[0], len(body)) + body
                )
                del said[: len(said) > 1]
        with suppress(OSError):
            writer.close()
            await writer.wait_closed()

    async def begin() -> tuple[str, int]:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        watched = WatchedPolicy(plain(port), "fleet", lambda *_, **__: None)
        try:
            await watched.start()
            return watched.stamp
        finally:
            await watched.stop()
            server.close()
            await asyncio.gather(*served)
            served.clear()

    assert asyncio.run(begin()) == ("u", 0)
    assert len(asked) == 3
    said[:] = [b"403 Forbidden"]
    with pytest.raises(ApiRefusal, match="403"):
        asyncio.run(begin())


def test_the_file_is_what_the_command_prints():
    """deploy/kubernetes/policy.yaml is made of the tables that a policy file is read by."""
    text = FILE.read_text().partition("\n")[2]
    docs = [msgspec.yaml.decode(part) for part in text.split("---\n") if part]
    assert docs == definition()


def test_every_field_of_a_policy_file_is_a_field_of_the_object():
    """Those of the table, each in the form in which the file has it."""
    schema = definition()[0]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    spec = schema["properties"]["spec"]["properties"]
    fields = {field.encode_name for field in msgspec.structs.fields(Policy)}
    assert set(spec["policy"]["properties"]) == {name.removesuffix("_ms") for name in fields}
    made = {"policy": {"patience": "2h", "placement": ["pack", "spread"]},
            "team": [{"name": "a", "guaranteed": {"H100": 8}}],
            "tier": [{"name": "rack", "label": "rack"}]}  # fmt: skip
    found = read.of_values(made, "object")
    assert (found.policy.patience_ms, found.teams[0].floor) == (7_200_000, {"H100": 8})


def test_a_policy_object_holds_without_a_restart(known: Cluster, tmp_path: Path):
    """A quota that is raised lets a pod start; what cannot be used is refused, in its status.

    The API server refuses what is not in the schema by itself. Deleted, the file holds again.
    """
    rig = known
    guide = block("yaml", "apiVersion: tidemill.dev")
    assert "created" in rig.kubectl("apply", "--dry-run=server", "-f", "-", told=guide)
    policy = tmp_path / "policy.toml"
    policy.write_text('[[team]]\nname = "ml"\nmaximum = { H100 = 8 }\n')
    rig.create(PATH, wanted(2))
    rig.add_nodes(node("n0"))
    rig.create("/api/v1/namespaces/ml/pods", pod("wide", 4, schedulerName=OURS))
    with scheduling(
        rig, tmp_path, "--policy", str(policy), "--policy-object", "fleet"
    ) as ours:  # fmt: skip
        rig.wait_for("it is told", lambda: told(rig, "wide")[0] == "OverQuota", 120)
        rig.wait_for("it is said", lambda: accepted(rig) == ("True", "it holds", 1))
        line = "kubectl get schedulingpolicy fleet -o yaml"
        journal = ours.journal
        rig.wait_for("the journal names it", lambda: line in why(journal, "ml/wide"))
        assert "maximum: H100: 2" in shown(rig, line)
        assert "the maximum quota of team `ml` is 2 `H100`" in why(journal, "ml/wide")
        bad = {"spec": {"policy": {"order": "nonsense"}}}
        rig.ask("PATCH", f"{PATH}/fleet", bad, kind=MERGE)
        rig.wait_for("it is refused", lambda: accepted(rig)[0] == "False")
        assert "nonsense" in accepted(rig)[1]
        assert accepted(rig)[2] == 2
        status, answer = rig.try_to(
            "PATCH", f"{PATH}/fleet", {"spec": {"policy": {"backfill": "hard"}}}, kind=MERGE
        )
        assert (status, "Unsupported value" in answer["message"]) == (422, True)
        good = wanted(4)["spec"] | {"policy": None}
        rig.ask("PATCH", f"{PATH}/fleet", {"spec": good}, kind=MERGE)
        rig.wait_until_running("ml", 1)
        rig.wait_for("it is said", lambda: accepted(rig)[::2] == ("True", 3))
        rig.create("/api/v1/namespaces/ml/pods", pod("more", 3, schedulerName=OURS))
        rig.wait_for("it is told", lambda: told(rig, "more")[0] == "OverQuota", 120)
        rig.ask("PATCH", f"{PATH}/fleet", {"spec": {"team": [{"name": "web"}]}}, kind=MERGE)
        rig.wait_until_running("ml", 2)  # a team that it does not name any more has no quota
        rig.create("/api/v1/namespaces/ml/pods", pod("last", 2, schedulerName=OURS))
        rig.wait_for("it is told", lambda: told(rig, "last")[0] == "Unschedulable", 120)
        rig.ask("DELETE", f"{PATH}/fleet")
        rig.wait_for("it is told", lambda: told(rig, "last")[0] == "OverQuota", 120)
        held = [line["of"] for line in ours.lines() if line["event"] == "policy holds"]
        assert held == ["SchedulingPolicy fleet", str(policy)]
        assert ours.stop() == 0


def test_a_policy_that_a_job_kept_from_counting_is_taken_when_that_has_ended(
    known: Cluster, tmp_path: Path
):
    """A file without the tier that a pod requires is refused, and not touched any more: the pod
    ends, and it counts.
    """
    rig, policy = known, tmp_path / "policy.toml"
    tier = '[[tier]]\nname = "rack"\nlabel = "topology.kubernetes.io/rack"\n'
    policy.write_text(tier)
    rig.add_nodes(node("n0"))
    notes = {"tidemill/required-topology": "rack"}
    rig.create(
        "/api/v1/namespaces/ml/pods",
        pod("tied", 1, schedulerName=OURS, metadata={"annotations": notes}),
    )
    with scheduling(rig, tmp_path, "--policy", str(policy)) as ours:
        rig.wait_until_running("ml", 1)
        policy.write_text('[[team]]\nname = "ml"\nmaximum = { H100 = 8 }\n')
        rig.wait_for("it is refused", lambda: ours.has_logged("policy refused"))
        line = next(one for one in ours.lines() if one["event"] == "policy refused")
        assert "no tier `rack`, which the job `ml/tied` names" in line["said"]
        assert not ours.has_logged("policy changed")
        rig.ask("DELETE", "/api/v1/namespaces/ml/pods/tied")
        rig.wait_for("it counts", lambda: ours.has_logged("policy changed"))
        assert ours.stop() == 0
