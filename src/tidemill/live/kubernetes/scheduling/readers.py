"""What a scheduler reads of a cluster, beside what everybody does, and what it makes of it."""

from tidemill.live.kubernetes.scheduling import unread_pods, volumes
from tidemill.live.kubernetes.watching.kinds import READERS, Readers

READ: Readers = {
    **READERS,
    ("", "Pod"): unread_pods.read,
    ("", "PersistentVolumeClaim"): volumes.read_claim,
    ("", "PersistentVolume"): volumes.read_volume,
}
