"""Messages and rows on the wire: exact both ways, and closed to what is not meant."""

from typing import get_args

import msgspec
import pytest

from tests.builders import contract, job, node, role
from tidemill.model import events as ev
from tidemill.model.claims import Claims, claims_of
from tidemill.model.errors import EventRefused, TidemillError
from tidemill.model.figures import DeviceFigure
from tidemill.model.loads import LatencyFigure, LoadFigure, LoadSource
from tidemill.model.reasons import LAYER_OF, NEVER, Cause
from tidemill.model.rows import Contract, Job, Piece, Queue
from tidemill.model.states import HOSTING, LAUNCHED, Confidence, NodeState
from tidemill.model.topology import Tier, Topology

SAMPLES: list[ev.Event] = [
    ev.ContractSigned(1, contract(labels={"zone": "x"})),
    ev.ContractStarted(1, 0),
    ev.ContractEnded(1, 0),
    ev.CommitmentSeen(1, 0, 24_000),
    ev.QueueSet(1, Queue("a")),
    ev.TopologySet(1, Topology((Tier("rack", "rack", mb_per_s=50_000), Tier("node")))),
    ev.NodeAdded(1, node()),
    ev.NodeMoved(1, 0, NodeState.DRAINING, ev.Why.SPOT_RECLAIM, 5),
    ev.DeviceFailed(1, 0, 7),
    ev.DeviceRepaired(1, 0, 7),
    ev.JobSubmitted(1, job(roles=[role(2, milli=250, kinds=["H100"], labels={"a": "b"})])),
    ev.RequestChanged(1, 0, job(roles=[role(3, gpus=2)]).shape, 60_000),
    ev.PlacementSeen(1, 0, 1, (Piece(0, 1, 2, 3),), 500),
    ev.ReasonSeen(1, 0, Cause.BUSY, 3, "Slurm says Resources"),
    ev.JobStarted(1, 0, 1),
    ev.JobFinished(1, 0, 1),
    ev.JobFailed(1, 0, 1, ev.Why.CRASHED, True),
    ev.JobEvicted(1, 0, 1),
    ev.JobMoved(1, 0, 1),
    ev.JobCancelled(1, 0),
    ev.ActivitySeen(1, 0, 1, 500_000),
    ev.PaceSeen(1, 0, 1, 700_000),
    ev.StallsSeen(1, 0, 1, 10_000, -1, 200_000),
    ev.EfficiencySeen(1, 0, 1, 400_000, Confidence.INFERRED, 100_000),
    ev.StragglerSeen(1, 0, 1, 300_000, Confidence.MODELLED),
    ev.FigureSeen(1, 0, 1, DeviceFigure.WATTS, 620),
    ev.DeviceErrorSeen(1, 0, 3, 79),
    ev.LoadSeen(1, 0, 1, LoadFigure.TOKENS_OUT, 1_000_000, LoadSource.TRACK),
    ev.LatencySeen(1, 0, 1, LatencyFigure.FIRST_TOKEN, 250_000, 12),
    ev.HostUseSeen(1, 0, 1, 1_907, 48_000, 270_215),
    ev.JobSaved(1, 0, 1),
    ev.CheckpointSeen(1, 0, 1, 1),
    ev.SightLost(1, True),
    ev.SightRegained(1),
    ev.Woke(1),
    ev.AskedPlace(1, 0, 1, (Piece(0, 0, 8, 2**64 - 1),)),
    ev.AskedEvict(1, 0, 1, ev.Why.PREEMPTED, 3),
    ev.AskedMove(1, 0, 1, ev.Why.MOVED, (Piece(0, 1, 1, 3),), (Piece(0, 0, 1, 3),), 3),
    ev.AskedRelease(1, 0),
    ev.AskedCancel(1, 0, ev.Why.IDLE),
    ev.AskedLaunch(1, 0, 3),
    ev.AskedDrain(1, 0, ev.Why.MAINTENANCE, 9),
    ev.AskedRepair(1, 0),
    ev.AskedReturn(1, 0),
    ev.AskedSpare(1, 0, True),
    ev.CauseChanged(1, 0, Cause.BUSY),
    ev.JobPassed(1, 0),
    ev.HalfLifeSet(1, 3_600_000),
    ev.MixSampled(1),
]


def test_there_is_a_sample_of_every_kind():
    """The samples below are one of each event, so no kind is left untried."""
    assert [type(event) for event in SAMPLES] == list(get_args(ev.Event))


@pytest.mark.parametrize("event", SAMPLES, ids=lambda event: type(event).__name__)
def test_an_event_round_trips(event: ev.Event):
    """JSON and MessagePack give back an equal event."""
    assert msgspec.json.decode(msgspec.json.encode(event), type=ev.Event) == event
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(event), type=ev.Event) == event


@pytest.mark.parametrize("event", SAMPLES, ids=lambda event: type(event).__name__)
def test_an_event_cannot_be_changed(event: ev.Event):
    """What happened has happened."""
    with pytest.raises(AttributeError, match="immutable"):
        event.at_ms = 0  # type: ignore[misc]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('{"is": "woke", "at_ms": -1}', ">= 0"),
        ('{"is": "woke", "at_ms": 9223372036854775807}', "<= 4611686018427387904"),
        ('{"is": "woke", "at_ms": 1.5}', "Expected `int`"),
        ('{"is": "woke", "at_ms": 1, "by": "x"}', "unknown field `by`"),
        ('{"is": "slept", "at_ms": 1}', "Invalid value 'slept'"),
        ('{"is": "job_started", "at_ms": 1, "job": -1, "attempt": 1}', ">= 0"),
        ('{"is": "asked_launch", "at_ms": 1, "contract": 0, "nodes": 0}', ">= 1"),
        ('{"is": "said_why", "at_ms": 1, "shape": 0, "cause": 99}', "Invalid enum value 99"),
        ('{"is": "activity_seen", "at_ms": 1, "job": 0, "attempt": 1, "busy_ppm": 1000001}', "<="),
    ],
)
def test_a_broken_event_is_refused(text: str, found: str):
    """Unknown fields and kinds, negative and oversized numbers do not decode."""
    with pytest.raises(msgspec.ValidationError, match=found):
        msgspec.json.decode(text, type=ev.Event)


@pytest.mark.parametrize(
    ("row", "change", "found"),
    [
        (contract(), {"count": 0}, ">= 1"),
        (contract(), {"count": 10_000_001}, "<= 10000000"),
        (contract(), {"usd_micro_per_hour": -2}, ">= -1"),
        (contract(), {"name": ""}, "length >= 1"),
        (contract(), {"colour": "red"}, "unknown field `colour`"),
        (contract(), {"node": {"devices": 65, "cpu_milli": 0, "memory_mib": 0}}, "<= 64"),
        (job(), {"estimate_ms": -5}, ">= 0"),
        (job(), {"shape": {"team": "a", "roles": []}}, "length >= 1"),
        (job(), {"shape": {"team": "a", "roles": [{"count": 0}]}}, ">= 1"),
        (job(), {"shape": {"team": "a", "roles": [{"accelerators": -1}]}}, ">= 0"),
        (job(), {"shape": {"team": "a", "roles": [{"accelerators": 1_025}]}}, "<= 1024"),
        (job(), {"shape": {"team": "a", "roles": [{"milli": 1001}]}}, "<= 1000"),
        (job(), {"efficiency": {"mfu_ppm": 1_000_001}}, "<= 1000000"),
    ],
)
def test_a_broken_row_is_refused(row: Contract | Job, change: dict[str, object], found: str):
    """Rows do not decode with sizes, names or words that cannot be."""
    with pytest.raises(msgspec.ValidationError, match=found):
        msgspec.convert(msgspec.to_builtins(row) | change, type(row))


def test_the_largest_gang_fits_into_the_columns():
    """The largest legal role is far from the edge of a 64-bit integer, even 64 times over."""
    largest = role(10_000_000, gpus=1_024)
    assert 64 * largest.total_milli < 2**62


def test_every_cause_belongs_to_a_layer():
    """No cause is without an owner, and what waiting cannot cure is a cause."""
    assert set(LAYER_OF) == set(Cause)
    assert set(Cause) > NEVER


def test_a_node_that_hosts_is_launched():
    """Work only goes on where a machine exists and is paid for."""
    assert HOSTING < LAUNCHED


def test_claims_say_what_was_used_asked_and_stopped():
    """Claims are read off the actions of the layers below."""
    place = ev.AskedPlace(0, 5, 1, (Piece(0, 2, 1, 1), Piece(0, 3, 1, 1)))
    actions: list[ev.Action] = [
        place,
        ev.AskedEvict(0, 6, 1, ev.Why.DRAINED),
        ev.AskedCancel(0, 7, ev.Why.IDLE),
    ]
    actions.append(ev.AskedDrain(0, 4, ev.Why.MAINTENANCE, 0))
    actions.append(ev.CauseChanged(0, 0, Cause.BUSY))
    assert claims_of(actions) == Claims(frozenset({2, 3}), frozenset({4}), frozenset({6, 7}))


def test_an_error_says_what_to_do():
    """An error reads as what was found, then a hint, and has an exit code of its own."""
    assert str(EventRefused("x cannot be", hint="do y")) == "x cannot be\nhint: do y"
    codes = [kind.exit_code for kind in TidemillError.__subclasses__()]
    assert len(codes) == len(set(codes))
