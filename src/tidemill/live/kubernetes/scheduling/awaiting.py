"""Pods that came before the owner that makes them a gang: nobody knows yet how many start together.

Pods and owners come by watches of their own, in any order, and either may be lost for a while.
"""

from collections.abc import Callable, Container, Sequence

from tidemill.live.kubernetes import owner_chain
from tidemill.live.kubernetes.cluster import Cluster
from tidemill.live.kubernetes.pods import KubePod, Owner

Key = tuple[str, str]
"""Namespace and name of an object."""


class AwaitedOwners:
    """Owners that are not there yet, and the pods that wait for each."""

    def __init__(self) -> None:
        self.is_read: Callable[[str, str], bool] = lambda _, __: False
        """Whether objects of a group and kind are read: one that is not there may still come."""
        self._pods: dict[tuple[str, str, str], dict[Key, None]] = {}
        """By namespace, kind and name of the owner."""

    def __len__(self) -> int:
        return len(self._pods)

    def of(self, cluster: Cluster, pods: Sequence[KubePod]) -> Owner | None:
        """An owner of some of these pods that is not there; they are given out when it came."""
        for pod in pods:
            found = owner_chain.unseen(cluster, pod, self.is_read)
            if found is not None:
                waiting = self._pods.setdefault((pod.namespace, found.kind, found.name), {})
                waiting.update(((one.namespace, one.name), None) for one in pods)
                return found
        return None

    def came(self, namespace: str, kind: str, name: str) -> dict[Key, None]:
        """The pods that waited for an owner."""
        return self._pods.pop((namespace, kind, name), {})

    def forget_gone(self, there: Container[Key]) -> None:
        """Pods that are gone wait for nobody."""
        if self._pods:
            self._pods = {
                owner: pods
                for owner, pods in self._pods.items()
                if any(pod in there for pod in pods)
            }
