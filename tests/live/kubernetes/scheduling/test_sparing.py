"""Whom the cluster lets nobody stop now."""

from tests.live.kubernetes import made
from tidemill.live.kubernetes import pods
from tidemill.live.kubernetes.scheduling.sparing import Spared
from tidemill.live.kubernetes.scheduling.view import ClusterView
from tidemill.live.kubernetes.watching import kinds

KIND = kinds.PODS


def test_a_job_is_spared_after_a_refusal_until_it_is_over():
    """For a while nobody asks again; of a job whose pods are gone nothing is remembered."""
    view = ClusterView("tidemill")
    pod = pods.read(made.pod("train", spec={"schedulerName": "tidemill"}))
    view.take(KIND, ("ml", "train"), pod, False)
    [unit] = view.units()
    spared = Spared(view)
    spared.refused(unit)
    spared.look([unit], ())
    assert spared.jobs(lambda _: 7) == {7}
    view.take(KIND, ("ml", "train"), pod.deleted(9), True)
    spared.look([unit], ())
    assert spared.jobs(lambda _: 7) == frozenset()
