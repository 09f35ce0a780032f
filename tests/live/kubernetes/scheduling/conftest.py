"""What tests of the scheduler may ask for: a real cluster in which it has its rights."""

from collections.abc import Iterator

import pytest

from tests.conftest import ROOT
from tests.rigs.kubernetes.cluster import Cluster

ROLE = ROOT / "deploy" / "kubernetes" / "schedule.yaml"


@pytest.fixture(scope="session")
def allowed(started: Cluster) -> Cluster:
    """A real Kubernetes, with the role of the scheduler in it."""
    started.kubectl("apply", "-f", str(ROLE))
    return started


@pytest.fixture
def may_drain(allowed: Cluster) -> Iterator[None]:
    """The scheduler may cordon nodes; not any more afterwards, as other tests have it."""
    path = str(ROOT / "deploy" / "kubernetes" / "drain.yaml")
    allowed.kubectl("apply", "-f", path)
    yield
    allowed.kubectl("delete", "-f", path)


@pytest.fixture
def rig(allowed: Cluster) -> Iterator[Cluster]:
    """The real Kubernetes, without nodes and pods."""
    yield allowed
    allowed.clear()
