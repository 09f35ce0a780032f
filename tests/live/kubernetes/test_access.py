"""Who asks a real API server, in every way that a kubeconfig says it; no secret is in a message."""

import asyncio
import base64
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.rigs.kubernetes.cluster import ADMIN, Cluster
from tidemill.live.kubernetes.api import http, kubeconfig
from tidemill.live.kubernetes.api.client import (
    ApiClient,
    ApiRefusal,
    ObjectMetadata,
    PlainObject,
    WatchedChange,
    unreachable,
)
from tidemill.live.kubernetes.api.http import BrokenAnswer, ServerAddress
from tidemill.live.kubernetes.api.kubeconfig import ClusterAccess
from tidemill.live.kubernetes.api.writing import ApiWriter
from tidemill.model.errors import BackendError, SpecError

SECRET = "s3cret-of-somebody"
PROGRAM = """
import json, os, sys, time
told = json.loads(os.environ["KUBERNETES_EXEC_INFO"])
with open(sys.argv[1], "a") as log:
    log.write("run\\n")
status = {"token": os.environ["RIG_TOKEN"]}
print(json.dumps({"apiVersion": told["apiVersion"], "kind": "ExecCredential", "status": status}))
"""

CERTIFYING = """
import json, sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
runs = Path(sys.argv[1])
before = len(runs.read_text().split()) if runs.exists() else 0
runs.write_text("run " * (before + 1))
name = sys.argv[2:][min(before, len(sys.argv) - 3)]
ends = datetime.now(UTC) + timedelta(seconds=-1 if before == 0 else 3600)
status = {"clientCertificateData": Path(name + ".crt").read_text(),
          "clientKeyData": Path(name + ".key").read_text(),
          "expirationTimestamp": ends.isoformat()}
print(json.dumps({"kind": "ExecCredential", "status": status}))
"""
"""A certificate that has ended at once, and others that have not."""

ASKING = """
import sys
from pathlib import Path
from tidemill.live.kubernetes.api import kubeconfig
from tidemill.live.kubernetes.watching.source import KubernetesSource
with KubernetesSource(kubeconfig.find(Path(sys.argv[1]))) as source:
    print(source.now_ms() > 0)
"""


def written(path: Path, told: dict[str, Any]) -> Path:
    path.write_text(json.dumps(told))
    return path


def asked(access: ClusterAccess, path: str = "/api/v1/namespaces/kube-system") -> dict[str, Any]:
    """One answer to whoever has this access."""

    async def ask() -> bytes:
        client = ApiClient(access, timeout_s=10)
        try:
            return await client.get(path)
        finally:
            await client.close()

    found: dict[str, Any] = json.loads(asyncio.run(ask()))
    return found


def base64_of(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


def test_every_way_to_say_who_asks_is_taken(started: Cluster, tmp_path: Path):
    """A token, a file with one, a program that makes one, certificates as files and as data."""
    (tmp_path / "token").write_text(ADMIN + "\n")
    (tmp_path / "login.py").write_text(PROGRAM)
    certificate, key = started.client_certificate("admin", "system:masters")
    program = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": sys.executable,
        "args": [str(tmp_path / "login.py"), str(tmp_path / "runs")],
        "env": [{"name": "RIG_TOKEN", "value": ADMIN}],
    }
    ways: list[dict[str, Any]] = [
        {"token": ADMIN},
        {"tokenFile": "token"},  # from the folder of the kubeconfig
        {"exec": program},
        {"client-certificate": str(certificate), "client-key": str(key)},
        {
            "client-certificate-data": base64_of(certificate),
            "client-key-data": base64_of(key),
        },
    ]
    for i, user in enumerate(ways):
        told = started.config(user)
        if i % 2:
            told["clusters"][0]["cluster"] = {
                "server": told["clusters"][0]["cluster"]["server"],
                "certificate-authority-data": base64_of(started.authority),
            }
        access = kubeconfig.find(written(tmp_path / f"config-{i}", told))
        assert asked(access)["metadata"]["name"] == "kube-system", user
    assert (tmp_path / "runs").read_text() == "run\n"


def test_a_pod_asks_as_its_service_account(started: Cluster, observer_token: str, tmp_path: Path):
    """Token and certificate from the folder that a pod has; what it may not do is refused."""
    (tmp_path / "token").write_text(observer_token)
    (tmp_path / "ca.crt").write_bytes(started.authority.read_bytes())
    access = kubeconfig.in_pod("127.0.0.1", str(started.port), tmp_path)
    assert asked(access, "/api/v1/pods")["kind"] == "PodList"
    with pytest.raises(ApiRefusal, match="secrets is forbidden") as refused:
        asked(access, "/api/v1/secrets")
    assert refused.value.is_forbidden


def test_a_yaml_kubeconfig_is_read_as_kubectl_reads_it(
    started: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Two files of $KUBECONFIG, block style; the first that says something wins; --context."""
    (tmp_path / "one").write_text(f"""\
apiVersion: v1
kind: Config
current-context: here
clusters:
- name: rig
  cluster:
    server: https://127.0.0.1:{started.port}/
    certificate-authority: {started.authority}
contexts:
- name: here
  context: {{cluster: rig, user: nobody}}
users:
""")
    (tmp_path / "two").write_text(f"""\
apiVersion: v1
kind: Config
current-context: other
contexts:
- name: other
  context:
    cluster: rig
    user: admin
    namespace: ml
users:
- name: admin
  user:
    token: {ADMIN}
""")
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path / 'one'}{os.pathsep}{tmp_path / 'two'}")
    with pytest.raises(ApiRefusal, match="system:anonymous"):
        asked(kubeconfig.find())
    assert asked(kubeconfig.find(context="other"))["metadata"]["name"] == "kube-system"


def certifying(started: Cluster, folder: Path, *users: str) -> ClusterAccess:
    """The access of one user after the other, by certificates that a program makes."""
    (folder / "login.py").write_text(CERTIFYING)
    for user in users:
        started.client_certificate(user)
    program = {
        "apiVersion": "client.authentication.k8s.io/v1", "command": sys.executable,
        "args": [str(folder / "login.py"), str(folder / "runs"),
                 *(str(started.folder / user) for user in users)],
    }  # fmt: skip
    return kubeconfig.find(written(folder / "config", started.config({"exec": program})))


def test_a_program_may_make_client_certificates(
    started: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Each new one is used on a new connection, by who reads and by who writes; the key is in no
    file that is left, or that others may read.
    """
    (tmp_path / "scratch").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "scratch"))
    access = certifying(started, tmp_path, "ann", "bob")
    review = b'{"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}'
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"

    async def ask() -> list[str]:
        client, found = ApiClient(access, timeout_s=10), list[str]()
        writer = ApiWriter(access, connections=1)
        for _ in range(3):
            with pytest.raises(ApiRefusal, match=r'User "(ann|bob)" cannot list') as refused:
                await client.get("/api/v1/secrets")
            found += re.findall('User "([a-z]+)"', str(refused.value))
        for _ in range(2):
            answer = await writer.send("POST", path, review)
            found.append(json.loads(answer.body)["status"]["userInfo"]["username"])
        await client.close()
        await writer.close()
        return found

    assert asyncio.run(ask())[-4:] == ["bob"] * 4
    assert (tmp_path / "runs").read_text() == "run run "
    assert not list((tmp_path / "scratch").iterdir())


def test_a_certificate_that_is_made_anew_is_for_a_new_connection(started: Cluster, tmp_path: Path):
    """One that ends while a connection is kept: the next question is of who it is now."""
    access = certifying(started, tmp_path, "ann", "ann", "cid")

    async def ask() -> list[str]:
        client, found = ApiClient(access, timeout_s=10), list[str]()
        for is_ended in (False, True):
            if is_ended:
                access.credentials.refused()
            with pytest.raises(ApiRefusal) as refused:
                await client.get("/api/v1/secrets")
            found += re.findall('User "([a-z]+)"', str(refused.value))
        await client.close()
        return found

    assert asyncio.run(ask()) == ["ann", "cid"]


def test_a_token_that_is_refused_is_made_anew(started: Cluster, tmp_path: Path):
    """A file whose token was renewed: after a 401 it is read again, at once."""
    token = tmp_path / "token"
    token.write_text("one-that-ended")
    access = kubeconfig.find(
        written(tmp_path / "config", started.config({"tokenFile": str(token)}))
    )
    with pytest.raises(ApiRefusal, match="401"):
        asked(access)
    token.write_text(ADMIN)
    assert asked(access)["metadata"]["name"] == "kube-system"


def test_another_server_is_not_trusted(started: Cluster, tmp_path: Path):
    """A certificate of somebody else is refused in words, unless the file says to take any."""
    told = started.config({"token": ADMIN})
    told["clusters"][0]["cluster"]["certificate-authority"] = str(started.folder / "clients.crt")
    access = kubeconfig.find(written(tmp_path / "config", told))
    with pytest.raises(OSError, match="certificate verify failed") as refused:
        asked(access)
    assert "is not trusted" in str(unreachable(access, refused.value))
    told["clusters"][0]["cluster"] = {
        "server": told["clusters"][0]["cluster"]["server"],
        "insecure-skip-tls-verify": True,
    }
    access = kubeconfig.find(written(tmp_path / "config", told))
    assert asked(access)["metadata"]["name"] == "kube-system"


BASE: dict[str, Any] = {
    "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
    "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
    "current-context": "x",
}


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ({"current-context": ""}, "asked for no current context"),
        ({"current-context": "y"}, "has contexts x; asked for `y`"),
        ({"clusters": []}, "names the cluster `c`, which is not there"),
        ({"clusters": [{"name": "c", "cluster": {"server": "10.0.0.1"}}]}, "which is no address"),
        (
            {"clusters": [{"name": "c", "cluster": {"server": "https://h", "proxy-url": "x"}}]},
            "goes through a proxy",
        ),
        (
            {
                "clusters": [
                    {
                        "name": "c",
                        "cluster": {"server": "https://h", "certificate-authority-data": SECRET},
                    }
                ]
            },
            "`certificate-authority-data` of context `x` is no base64",
        ),
        (
            {"users": [{"name": "u", "user": {"client-certificate-data": "c2VjcmV0"}}]},
            "and its key do not fit",
        ),
        (
            {"users": [{"name": "u", "user": {"auth-provider": {"name": "gcp"}}}]},
            "`auth-provider`, which Kubernetes gave up",
        ),
        ({"users": [{"name": "u", "user": {"token": [SECRET]}}]}, "is no kubeconfig"),
        ({"users": [{"name": "u", "user": {"tokenFile": "/none"}}]}, "token file `/none`"),
    ],
)
def test_what_cannot_be_used_is_said(told: dict[str, Any], said: str, tmp_path: Path):
    """Each mistake in a kubeconfig is named, with what to do, and without what is secret."""
    path = written(tmp_path / "config", BASE | told)
    with pytest.raises(SpecError) as refused:
        kubeconfig.find(path).credentials.authorization()
    assert said in refused.value.message
    assert refused.value.hint
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("import sys; print('no'); sys.exit(3)", "exit code 3"),
        (f"print('{SECRET}')", "something else than an ExecCredential"),
        ("print('{\"status\": {}}')", "no token"),
        (
            f'print(\'{{"status": {{"clientCertificateData": "{SECRET}"}}}}\')',
            "a client certificate without its key",
        ),
        (
            (
                "import json; one = dict.fromkeys(['clientCertificateData', 'clientKeyData'], "
                f"'{SECRET}'); print(json.dumps({{'status': one}}))"
            ),
            "a client certificate and a key that do not fit",
        ),
    ],
)
def test_a_program_that_fails_is_said_without_its_output(script: str, said: str, tmp_path: Path):
    """What it printed may be a token, so it is in no message."""
    program = {"command": sys.executable, "args": ["-c", script]}
    path = written(
        tmp_path / "config", BASE | {"users": [{"name": "u", "user": {"exec": program}}]}
    )
    with pytest.raises(BackendError, match=said) as refused:
        kubeconfig.find(path).credentials.authorization()
    assert SECRET not in str(refused.value)


def test_secrets_are_in_no_representation(tmp_path: Path):
    """Neither of an access nor of what it holds."""
    path = written(
        tmp_path / "config", BASE | {"users": [{"name": "u", "user": {"token": SECRET}}]}
    )
    access = kubeconfig.find(path)
    assert SECRET in access.credentials.authorization()
    assert SECRET not in repr(access)


@contextmanager
def answering(answer: bytes, *, then_wait: bool = False) -> Iterator[int]:
    """A server that says the same to everybody."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        done = threading.Event()

        def serve() -> None:
            try:
                while True:
                    one, _ = listening.accept()
                    with one:
                        one.recv(1 << 16)
                        one.sendall(answer)
                        if then_wait:
                            done.wait(10)
            except OSError:
                return

        threading.Thread(target=serve, daemon=True).start()
        yield listening.getsockname()[1]
        done.set()


def plain(port: int) -> ClusterAccess:
    return ClusterAccess(ServerAddress("127.0.0.1", port), kubeconfig.FixedToken(), "a test")


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"SSH-2.0-OpenSSH_9\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X: " + b"y" * (http.MOST_HEAD_BYTES + 1) + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{}",
    ],
)
def test_an_answer_that_is_none_is_refused(answer: bytes):
    """Nothing, another protocol, a head without end, a body that is cut off: never a crash."""
    with answering(answer) as port, pytest.raises((BrokenAnswer, OSError)) as refused:
        asked(plain(port))
    assert "127.0.0.1" in str(unreachable(plain(port), refused.value))


def test_a_server_that_says_nothing_is_not_waited_for_ever():
    """The time for one answer ends it."""

    async def ask(port: int) -> None:
        await ApiClient(plain(port), timeout_s=0.2).get("/version")

    with answering(b"", then_wait=True) as port, pytest.raises(TimeoutError):
        asyncio.run(ask(port))


def test_a_watch_with_an_endless_line_is_refused(monkeypatch: pytest.MonkeyPatch):
    """No line is kept that is larger than any object."""
    monkeypatch.setattr("tidemill.live.kubernetes.api.client.MOST_EVENT_BYTES", 1000)
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"

    async def ask(port: int) -> None:
        async with ApiClient(plain(port), timeout_s=5).watching("/x", "1") as changes:
            async for _ in changes:
                pass

    with (
        answering(head + b"2000\r\n" + b"y" * 0x2000 + b"\r\n") as port,
        pytest.raises(BrokenAnswer, match="more than 1,000 bytes in one line"),
    ):
        asyncio.run(ask(port))


def test_of_pods_and_nodes_all_is_made_but_who_changed_them(started: Cluster, tmp_path: Path):
    """A field of an object that the real server has and we leave out is left out on purpose."""
    path = written(tmp_path / "config", started.config({"token": ADMIN}))
    schemas = asked(kubeconfig.find(path), "/openapi/v3/api/v1")["components"]["schemas"]
    metadata = schemas["io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"]["properties"]
    assert {*metadata} - {*ObjectMetadata.__annotations__} == {"managedFields", "selfLink"}
    for kind in ("Pod", "Node"):
        known = schemas[f"io.k8s.api.core.v1.{kind}"]["properties"]
        assert {*known} == {*PlainObject.__annotations__}


def test_an_object_of_another_shape_is_left_to_whoever_reads_it():
    """What cannot be the metadata of anything is no reason to drop the watch."""
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    event = b'{"type":"ADDED","object":{"kind":"Pod","metadata":[7],"extra":1}}\n'

    async def ask(port: int) -> WatchedChange:
        client = ApiClient(plain(port), timeout_s=5)
        async with client.watching("/x", "1", shape=PlainObject) as changes:
            return await anext(changes)

    with answering(head + b"%x\r\n" % len(event) + event + b"\r\n") as port:
        found = asyncio.run(ask(port))
    assert found == ("ADDED", {"kind": "Pod", "metadata": [7], "extra": 1})


@pytest.mark.parametrize("shape", [PlainObject, dict[str, Any]])
def test_an_error_that_is_none_ends_a_watch_as_a_lost_connection_does(shape: type[Any]):
    """A server that refuses to go on, in words that nobody can read, is asked again."""
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    event = b'{"type":"ERROR","object":{"kind":"Status","code":"gone"}}\n'

    async def ask(port: int) -> None:
        async with ApiClient(plain(port), timeout_s=5).watching("/x", "1", shape=shape) as changes:
            await anext(changes)

    with (
        answering(head + b"%x\r\n" % len(event) + event + b"\r\n") as port,
        pytest.raises(BrokenAnswer, match="no JSON of the API"),
    ):
        asyncio.run(ask(port))


def test_the_environment_changes_nothing(started: Cluster, tmp_path: Path):
    """Proxies and certificates that other programs take from the environment are not used."""
    path = written(tmp_path / "config", started.config({"token": ADMIN}))
    done = subprocess.run(
        [sys.executable, "-c", ASKING, path],
        env={**os.environ, "HTTPS_PROXY": "http://127.0.0.1:9", "ALL_PROXY": "http://127.0.0.1:9",
             "REQUESTS_CA_BUNDLE": "/dev/null"},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.stdout == "True\n", done.stderr
