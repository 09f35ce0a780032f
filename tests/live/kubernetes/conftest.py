"""What tests of Kubernetes may ask for: a real one, empty, and what observes it."""

import json
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.rigs.kubernetes import cluster
from tests.rigs.kubernetes.cluster import Cluster
from tests.rigs.slurm.cluster import quick_folder
from tidemill.live.kubernetes.api import kubeconfig
from tidemill.live.kubernetes.watching.source import KubernetesSource

ROLE = ROOT / "deploy" / "kubernetes" / "observe.yaml"


@pytest.fixture(scope="session")
def started() -> Iterator[Cluster]:
    """A real Kubernetes, with the role of the observer in it; stopped at the end."""
    if reason := cluster.missing():
        pytest.skip(f"this test starts a real Kubernetes, and cannot: {reason}")
    with (
        tempfile.TemporaryDirectory(prefix="tidemill-", dir=quick_folder()) as folder,
        cluster.running(Path(folder)) as found,
    ):
        for name in ("ml", "web"):
            found.create("/api/v1/namespaces", {"metadata": {"name": name}})
        found.kubectl("apply", "-f", str(ROLE))
        yield found


@pytest.fixture
def rig(started: Cluster) -> Iterator[Cluster]:
    """The real Kubernetes, without nodes and pods."""
    yield started
    started.clear()


@pytest.fixture
def observer_token(started: Cluster) -> str:
    """A token of the service account that the observer is."""
    path = "/api/v1/namespaces/tidemill/serviceaccounts/observer/token"
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    token: str = started.ask("POST", path, asked)["status"]["token"]
    return token


Source = Callable[..., KubernetesSource]


@pytest.fixture
def watcher(started: Cluster, observer_token: str, tmp_path: Path) -> Iterator[Source]:
    """Makes sources that may do what the role allows; closed at the end."""
    made = list[KubernetesSource]()

    def make(
        *, port: int | None = None, limit: int = 500, timeout_s: float = 20,
        autoscaler_namespace: str = "",
    ) -> KubernetesSource:  # fmt: skip
        path = tmp_path / f"kubeconfig-{len(made)}"
        path.write_text(json.dumps(started.config({"token": observer_token}, port=port)))
        made.append(
            KubernetesSource(kubeconfig.find(path), limit=limit, timeout_s=timeout_s,
                             autoscaler_namespace=autoscaler_namespace)
        )  # fmt: skip
        return made[-1]

    yield make
    for source in made:
        source.close()
