"""What people are told of pods and jobs that are in no books, or there otherwise than they were."""

from collections.abc import Iterator

from tidemill.live.kubernetes import device_parts
from tidemill.live.kubernetes.cluster import Cluster
from tidemill.live.kubernetes.jobs import KubeJob
from tidemill.live.kubernetes.pods import KubePod
from tidemill.model.measures import clause_text

LOST_PODS = (
    "jobs made other pods than those that the files show: what these held is in no books, and the"
    " jobs count as submitted when the first that is shown was made"
)
UNKNOWN_CLAIM = (
    "pods have claims of devices (DRA) that nobody shows: whether they are of GPUs is unknown, and"
    " they are not booked (kubectl get resourceclaims,resourceclaimtemplates -A)"
)


def outlived(jobs: list[KubeJob]) -> Iterator[str]:
    """Jobs that are over, by whoever made their pods, and whose pods go on."""
    if not jobs:
        return
    whose = "its pods" if len(jobs) == 1 else "pods"
    many = f"{clause_text(len(jobs), 'jobs are over and')} {whose}"
    first = jobs[0]
    yield (
        f"{many} still hold GPUs, which the books count as theirs; delete them, if nobody needs"
        f" them: {first.name}{', …' if len(jobs) > 1 else ''} (kubectl describe"
        f" {first.kubectl_kind} -n {first.key.namespace} {first.key.name})"
    )


def not_booked(what: str) -> str:
    """Why pods that request something of accelerators, or may, are not booked."""
    if what.startswith(device_parts.OF_CLASS):
        return (
            f"pods have claims of {what}, which nobody shows: whether they are of GPUs is unknown,"
            " and they are not booked (kubectl get deviceclasses)"
        )
    return (
        f"pods request {what}, of which nobody says how large a part of a device it is: not booked"
    )


def has_unknown_claim(cluster: Cluster, pod: KubePod) -> bool:
    """Whether a pod may have devices by a claim of which neither it nor its template is known."""
    return pod.request.gpu is None and any(
        (pod.namespace, name) not in cluster.claims
        and (pod.namespace, pod.claim_names.get(inside, "")) not in cluster.claims
        for inside, name in pod.request.claims
    )
