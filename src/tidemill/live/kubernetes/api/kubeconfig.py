"""Where a cluster is and who asks: from a kubeconfig, or from inside a pod.

As kubectl finds it: the file that was named, else those of $KUBECONFIG (the first that says
something wins), else ~/.kube/config, else the service account of the pod that this runs in.
"""

import base64
import binascii
import os
import ssl
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from tidemill.live.kubernetes.api.credentials import (
    Credentials,
    FixedToken,
    LoginProgram,
    ProgramLogin,
    TokenFile,
    add_pair,
)
from tidemill.live.kubernetes.api.http import ServerAddress
from tidemill.model.errors import SpecError

MOST_BYTES = 4 << 20
SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


class ClusterAccess(NamedTuple):
    """A server, and who asks it."""

    address: ServerAddress
    credentials: Credentials
    named: str
    """What people call it: the context, or the pod's service account."""

    def asking(self) -> tuple[str, ServerAddress]:
        """What the header says, and how to connect now; may run a program."""
        who, tls = self.credentials.authorization(), self.credentials.tls(self.address.tls)
        return who, self.address if tls is self.address.tls else self.address._replace(tls=tls)


class _Cluster(Struct, rename="kebab"):
    server: str = ""
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    insecure_skip_tls_verify: bool = False
    tls_server_name: str = ""
    proxy_url: str = ""


class _Variable(Struct):
    name: str
    value: str


class _Exec(Struct):
    command: str
    args: list[str] | None = None
    env: list[_Variable] | None = None
    apiVersion: str = ""  # noqa: N815 - as the file spells it
    installHint: str = ""  # noqa: N815
    provideClusterInfo: bool = False  # noqa: N815


class _User(Struct, rename="kebab"):
    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    token: str = ""
    token_file: str = msgspec.field(default="", name="tokenFile")
    exec_: _Exec | None = msgspec.field(default=None, name="exec")
    auth_provider: Any = None


class _Context(Struct):
    cluster: str = ""
    user: str = ""


class _NamedCluster(Struct):
    name: str
    cluster: _Cluster


class _NamedUser(Struct):
    name: str
    user: _User | None = None


class _NamedContext(Struct):
    name: str
    context: _Context


class _File(Struct, rename="kebab"):
    clusters: list[_NamedCluster] | None = None
    users: list[_NamedUser] | None = None
    contexts: list[_NamedContext] | None = None
    current_context: str = ""


class _Kubeconfig:
    """Several files together: of each name the first counts, with the folder that it stands in."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self.said = ", ".join(map(str, paths))
        self.current = ""
        self.clusters: dict[str, tuple[_Cluster, Path]] = {}
        self.users: dict[str, tuple[_User, Path]] = {}
        self.contexts: dict[str, _Context] = {}
        for path in paths:
            told, folder = _file(path), path.resolve().parent
            self.current = self.current or told.current_context
            for cluster in told.clusters or ():
                self.clusters.setdefault(cluster.name, (cluster.cluster, folder))
            for user in told.users or ():
                self.users.setdefault(user.name, (user.user or _User(), folder))
            for context in told.contexts or ():
                self.contexts.setdefault(context.name, context.context)


def find(path: Path | None = None, context: str | None = None) -> ClusterAccess:
    """The access that was named, or the one that kubectl would use here."""
    paths = _paths(path)
    if paths:
        return _of_context(_Kubeconfig(paths), context)
    host, port = (os.environ.get(f"KUBERNETES_SERVICE_{key}", "") for key in ("HOST", "PORT"))
    if host and context is None:
        return in_pod(host, port or "443")
    raise SpecError(
        "asked for the cluster of a kubeconfig; found none ($KUBECONFIG, ~/.kube/config)",
        hint="give one with --kubeconfig FILE; in a pod its service account is used",
    )


def in_pod(host: str, port: str, folder: Path = SERVICE_ACCOUNT) -> ClusterAccess:
    """The access of the service account of a pod."""
    authority = folder / "ca.crt"
    if not (folder / "token").exists() or not authority.exists() or not port.isdecimal():
        raise SpecError(
            f"this seems to be a pod, and {folder} has no token or no ca.crt",
            hint="set automountServiceAccountToken: true, or give --kubeconfig",
        )
    tls = _verifying(authority.read_text(encoding="utf-8"), str(authority))
    address = ServerAddress(host, int(port), tls=tls)
    return ClusterAccess(address, TokenFile(folder / "token"), "the service account of this pod")


def _paths(path: Path | None) -> list[Path]:
    if path is not None:
        return [path]
    named = [Path(one) for one in os.environ.get("KUBECONFIG", "").split(os.pathsep) if one]
    found = [one for one in named or [Path.home() / ".kube" / "config"] if one.exists()]
    if named and not found:
        raise SpecError(
            f"$KUBECONFIG names {', '.join(map(str, named))}, and no such file is there",
            hint="correct it, or give --kubeconfig FILE",
        )
    return found


def _file(path: Path) -> _File:
    try:
        if path.stat().st_size > MOST_BYTES:
            raise SpecError(f"`{path}` is larger than any kubeconfig", hint="check the path")
        return msgspec.yaml.decode(path.read_bytes(), type=_File)
    except OSError as error:
        raise SpecError(
            f"`{path}` cannot be read: {error.strerror}", hint="check the path"
        ) from None
    except (msgspec.DecodeError, UnicodeDecodeError):  # the message may quote a secret
        raise SpecError(
            f"`{path}` is no kubeconfig", hint=f"kubectl --kubeconfig {path} config view reads it?"
        ) from None


def _of_context(told: _Kubeconfig, asked: str | None) -> ClusterAccess:
    name = asked if asked is not None else told.current
    if name not in told.contexts:
        names = ", ".join(sorted(told.contexts)) or "none"
        found = f"`{name}`" if name else "no current context"
        raise SpecError(
            f"{told.said} has contexts {names}; asked for {found}", hint="give one with --context"
        )
    context = told.contexts[name]
    if context.cluster not in told.clusters:
        raise SpecError(
            f"context `{name}` of {told.said} names the cluster `{context.cluster}`, which is not"
            " there",
            hint="kubectl config view",
        )
    cluster, at = told.clusters[context.cluster]
    user, user_at = told.users.get(context.user, (_User(), at))
    address = _address(cluster, user, at, user_at, name)
    if (told_program := _checked(user, name).exec_) is not None and not _has_token(user):
        new_tls = partial(_tls, cluster, at, name) if address.tls is not None else None
        login = ProgramLogin(_program(told_program, cluster, user_at), new_tls)
        return ClusterAccess(address, login, f"context `{name}`")
    return ClusterAccess(address, _token_of(user, user_at), f"context `{name}`")


def _address(
    cluster: _Cluster, user: _User, at: Path, user_at: Path, context: str
) -> ServerAddress:
    if cluster.proxy_url:
        raise SpecError(
            f"context `{context}` goes through a proxy (`proxy-url`), which is not supported",
            hint="use `kubectl proxy`, and a kubeconfig with server: http://127.0.0.1:8001",
        )
    url = urlsplit(cluster.server)
    if url.scheme not in ("http", "https") or not url.hostname:
        raise SpecError(
            f"context `{context}` names the server `{cluster.server}`, which is no address",
            hint="such as https://10.0.0.1:6443",
        )
    port, base = url.port or (443 if url.scheme == "https" else 80), url.path.rstrip("/")
    if url.scheme == "http":
        return ServerAddress(url.hostname, port, base)
    tls = _tls(cluster, at, context)
    _add_client(tls, user, user_at, context)
    return ServerAddress(url.hostname, port, base, tls, cluster.tls_server_name or None)


def _tls(cluster: _Cluster, at: Path, context: str) -> ssl.SSLContext:
    if cluster.insecure_skip_tls_verify:
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
        return tls
    if cluster.certificate_authority_data:
        told = _decoded(cluster.certificate_authority_data, "certificate-authority-data", context)
        return _verifying(told.decode("ascii", "replace"), f"context `{context}`")
    if cluster.certificate_authority:
        path = at / cluster.certificate_authority
        return _verifying(_read(path, context).decode("ascii", "replace"), str(path))
    return _verifying(None, context)


def _verifying(authority: str | None, where: str) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cadata=authority)
    except (ssl.SSLError, ValueError):
        raise SpecError(
            f"the certificate authority of {where} is no certificate", hint="PEM is expected"
        ) from None


def _add_client(tls: ssl.SSLContext, user: _User, at: Path, context: str) -> None:
    """The certificate of who asks, if there is one."""
    parts = list[bytes]()
    for data, path, name in (
        (user.client_certificate_data, user.client_certificate, "client-certificate"),
        (user.client_key_data, user.client_key, "client-key"),
    ):
        if data:
            parts.append(_decoded(data, f"{name}-data", context))
        elif path:
            parts.append(_read(at / path, context))
    if not parts:
        return
    try:
        add_pair(tls, *parts)
    except (ssl.SSLError, ValueError):
        raise SpecError(
            f"the client certificate of context `{context}` and its key do not fit",
            hint="both are needed, as PEM, the key without a password",
        ) from None


def _checked(user: _User, context: str) -> _User:
    if user.auth_provider is not None:
        raise SpecError(
            f"the user of context `{context}` has an `auth-provider`, which Kubernetes gave up",
            hint="renew the kubeconfig with your provider's tool: it writes `exec` instead",
        )
    return user


def _has_token(user: _User) -> bool:
    return bool(user.token_file or user.token)


def _token_of(user: _User, at: Path) -> Credentials:
    return TokenFile(at / user.token_file) if user.token_file else FixedToken(user.token)


def _program(told: _Exec, cluster: _Cluster, at: Path) -> LoginProgram:
    spec: dict[str, Any] = {"interactive": False}
    if told.provideClusterInfo:
        spec["cluster"] = {
            "server": cluster.server,
            "certificate-authority-data": cluster.certificate_authority_data,
        }
    version = told.apiVersion or "client.authentication.k8s.io/v1"
    info = {"apiVersion": version, "kind": "ExecCredential", "spec": spec}
    command = str(at / told.command) if os.sep in told.command else told.command
    return LoginProgram(
        command, tuple(told.args or ()), {one.name: one.value for one in told.env or ()}, version,
        told.installHint[:300], msgspec.json.encode(info),
    )  # fmt: skip


def _decoded(told: str, field: str, context: str) -> bytes:
    try:
        return base64.b64decode(told, validate=True)
    except binascii.Error:
        raise SpecError(
            f"`{field}` of context `{context}` is no base64", hint="kubectl config view --raw"
        ) from None


def _read(path: Path, context: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise SpecError(
            f"context `{context}` names `{path}`, which cannot be read: {error.strerror}",
            hint="check the path",
        ) from None
