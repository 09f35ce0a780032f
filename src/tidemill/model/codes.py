"""Numbers for words, as columns and journals hold them: tables that are only ever appended to.

A journal of version 2 keeps the place of a word in one of these tables instead of the word. A place
that was given once keeps its meaning for ever: a new word goes to the end, whatever the order of
its enum, and none is taken out. ``Cause`` and ``NodeState`` are numbers already and keep theirs.
"""

from typing import Final

from tidemill.model import events as ev
from tidemill.model.events import Event, Why
from tidemill.model.states import Confidence

KINDS: Final[tuple[type[Event], ...]] = (
    ev.ContractSigned,
    ev.ContractStarted,
    ev.ContractEnded,
    ev.QueueSet,
    ev.TopologySet,
    ev.NodeAdded,
    ev.NodeMoved,
    ev.DeviceFailed,
    ev.JobSubmitted,
    ev.JobStarted,
    ev.JobFinished,
    ev.JobFailed,
    ev.JobEvicted,
    ev.JobMoved,
    ev.JobCancelled,
    ev.ActivitySeen,
    ev.PaceSeen,
    ev.JobSaved,
    ev.Woke,
    ev.AskedPlace,
    ev.AskedEvict,
    ev.AskedMove,
    ev.AskedRelease,
    ev.AskedCancel,
    ev.AskedLaunch,
    ev.AskedDrain,
    ev.AskedRepair,
    ev.AskedReturn,
    ev.AskedSpare,
    ev.CauseChanged,
    ev.JobPassed,
    ev.HalfLifeSet,
    ev.MixSampled,
    ev.PlacementSeen,
    ev.ReasonSeen,
    ev.StallsSeen,
    ev.EfficiencySeen,
    ev.CheckpointSeen,
    ev.SightLost,
    ev.SightRegained,
    ev.StragglerSeen,
    ev.FigureSeen,
    ev.DeviceErrorSeen,
    ev.LoadSeen,
    ev.LatencySeen,
    ev.RequestChanged,
    ev.CommitmentSeen,
    ev.HostUseSeen,
    ev.DeviceRepaired,
)
WHYS: Final = (
    Why.UNSAID,
    Why.CRASHED,
    Why.NODE_LOST,
    Why.DEVICE_LOST,
    Why.PREEMPTED,
    Why.RECLAIMED,
    Why.DRAINED,
    Why.SPOT_RECLAIM,
    Why.MAINTENANCE,
    Why.CONTRACT_END,
    Why.SURPLUS,
    Why.IDLE,
    Why.REPAIRED,
    Why.MOVED,
    Why.SHRUNK,
    Why.GROWN,
    Why.REORDERED,
    Why.REPACKED,
    Why.TIMED_OUT,
    Why.OUT_OF_MEMORY,
    Why.EVICTED,
    Why.LOST_RACE,
)
CONFIDENCES: Final = (
    Confidence.UNKNOWN,
    Confidence.MEASURED,
    Confidence.INFERRED,
    Confidence.MODELLED,
    Confidence.SIMULATED,
    Confidence.ASSUMED,
)

KIND_CODE: Final = {kind: code for code, kind in enumerate(KINDS)}
WHY_CODE: Final = {why: code for code, why in enumerate(WHYS)}
CONFIDENCE_CODE: Final = {word: code for code, word in enumerate(CONFIDENCES)}
