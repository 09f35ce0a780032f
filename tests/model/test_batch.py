"""Events in columns: what goes in comes out, and nothing else can be in a batch."""

from itertools import product

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.model import any_event
from tidemill.journal import checking
from tidemill.model import batch, codes
from tidemill.model import events as ev
from tidemill.model.batch import Batch, Dictionary, EventColumn, JobColumn, convert
from tidemill.model.batch.fields import plain_fields
from tidemill.model.events import Event, Why
from tidemill.model.reasons import Cause
from tidemill.model.rows import Job, Node, Piece, Role, Shape
from tidemill.model.states import Confidence, NodeState

FULL = Piece(0, 1, 8, 2**64 - 1)
SOME: list[Event] = [
    ev.NodeAdded(0, Node("n", "c", (("rack", "a"),))),
    ev.JobSubmitted(1, Job("one", Shape("t", (Role(),)), user="ann")),
    ev.AskedPlace(1, 0, 1, (FULL, Piece(1, 2, 1, 0))),
    ev.JobSubmitted(2, Job("two", Shape("t", (Role(),)))),
    ev.AskedMove(3, 0, 1, Why.MOVED, (FULL,), (FULL, FULL), 7),
    ev.NodeAdded(4, Node("m", "c", (("rack", "a"),))),
    ev.NodeMoved(5, 1, NodeState.DRAINING, Why.SPOT_RECLAIM, 99),
    ev.Woke(6),
]


@given(st.lists(any_event.events(), max_size=12))
@settings(max_examples=40)
def test_events_come_back_from_columns(events: list[Event]):
    """Whatever their kinds and fields, events in columns are the same events again."""
    made = convert.of_events(events, Dictionary())
    assert convert.to_events(made) == events
    in_order = sorted(events, key=lambda event: event.at_ms)
    assert checking.fault(convert.of_events(in_order, Dictionary())) is None


@pytest.mark.parametrize("kind", codes.KINDS, ids=lambda kind: kind.__name__)
@given(data=st.data())
@settings(max_examples=8)  # of each of the 33 kinds
def test_every_kind_comes_back(kind: type[Event], data: st.DataObject):
    """Every kind of event comes back with every field, equal to what MessagePack makes of it."""
    event = data.draw(any_event.events(kind))
    (back,) = convert.to_events(convert.of_events([event], Dictionary()))
    assert msgspec.msgpack.encode(back) == msgspec.msgpack.encode(event)


@given(st.lists(any_event.events(), max_size=12), st.integers(0, 12), st.integers(0, 12))
@settings(max_examples=25)
def test_a_part_is_a_batch(events: list[Event], start: int, end: int):
    """A part of a batch holds exactly its own events, and may be cut again."""
    events.sort(key=lambda event: event.at_ms)
    part = batch.cut(convert.of_events(events, Dictionary()), start, end)
    assert convert.to_events(part) == events[start:end]
    assert checking.fault(part) is None


def test_a_dictionary_serves_many_batches():
    """Shapes are numbered as the cluster state numbers them; a known one adds nothing."""
    dictionary, shapes = Dictionary(), [Shape(team, (Role(),)) for team in "abacb"]
    jobs = [ev.JobSubmitted(0, Job(f"j{j}", shape)) for j, shape in enumerate(shapes)]
    first, second = (convert.of_events(part, dictionary) for part in (jobs[:2], jobs[2:]))
    assert first.jobs[:, JobColumn.SHAPE].tolist() == [0, 1]
    assert second.jobs[:, JobColumn.SHAPE].tolist() == [0, 2, 1]
    assert [shape.team for shape in dictionary.shapes.rows] == ["a", "b", "c"]


@pytest.mark.parametrize("value", [-(2**63), -2, 2**62 + 1])
def test_a_number_out_of_bounds_is_found(value: int):
    """A number that no field may have is found at its event, in whatever column it stands."""
    for e, column in product(range(len(SOME)), EventColumn):
        made = _batch()
        made.events[e, column] = value
        found = checking.fault(made)
        is_free = column is EventColumn.TO and isinstance(SOME[e], ev.AskedMove)
        assert is_free if found is None else found[0] <= e


def test_rows_that_do_not_fit_are_found():
    """Pools that are longer or shorter than the events say are found."""
    made = _batch()
    for broken in (
        made._replace(pieces=made.pieces[1:]),
        made._replace(jobs=made.jobs[1:]),
        made._replace(job_names=["one"]),
        made._replace(node_names=[]),
        made._replace(dictionary=Dictionary()),
    ):
        assert checking.fault(broken) is not None
    made.jobs[1, JobColumn.MFU] = -1
    assert checking.fault(made) == (3, "`job_submitted` has a number that it cannot have")


def test_columns_can_be_written_without_events():
    """Whoever fills the matrix and the pool by number makes the same events."""
    made = convert.of_events([], Dictionary())
    rows = np.zeros((2, len(EventColumn)), np.int64)
    rows[:, EventColumn.AT], rows[:, EventColumn.WHO] = 5, (3, 4)
    rows[:, EventColumn.KIND] = [codes.KIND_CODE[kind] for kind in (ev.AskedPlace, ev.CauseChanged)]
    rows[0, EventColumn.ATTEMPT], rows[0, EventColumn.COUNT] = 1, 1
    rows[1, EventColumn.WHY] = Cause.BUSY
    written = made._replace(events=rows, pieces=np.array([[0, 1, 8, -1, 0]]))
    assert checking.fault(written) is None
    assert convert.to_events(written) == [
        ev.AskedPlace(5, 3, 1, (FULL,)),
        ev.CauseChanged(5, 4, Cause.BUSY),
    ]


def test_codes_hold_every_word():
    """Every kind of event, reason and confidence has a code, and no two have the same."""
    assert set(codes.KINDS) == set(Event.__args__)
    assert set(codes.WHYS) == set(Why)
    assert set(codes.CONFIDENCES) == set(Confidence)
    for table in (codes.KINDS, codes.WHYS, codes.CONFIDENCES):
        assert len(set(table)) == len(table)


def test_codes_never_move():
    """The codes that journals were written with mean the same for ever: words are only added."""
    kinds = [str(kind.__struct_config__.tag) for kind in codes.KINDS]
    assert ",".join(kinds[:33]) == (
        "contract_signed,contract_started,contract_ended,queue_set,topology_set,node_added,"
        "node_moved,device_failed,job_submitted,job_started,job_finished,job_failed,job_evicted,"
        "job_moved,job_cancelled,activity_seen,pace_seen,job_saved,woke,asked_place,asked_evict,"
        "asked_move,asked_release,asked_cancel,asked_launch,asked_drain,asked_repair,asked_return,"
        "asked_spare,said_why,job_passed,said_half_life,said_mix"
    )
    assert [str(why) for why in codes.WHYS[:18]] == [
        *("", "crashed", "node lost", "device lost", "preempted by priority"),
        *("reclaimed for a floor", "drained", "spot reclaim", "maintenance", "contract end"),
        *("not needed", "idle too long", "repaired", "moved to make room", "shrunk to make room"),
        *("grown into idle room", "put off by the order", "stopped to be placed elsewhere"),
    ]
    words = ["unknown", "measured", "inferred", "modelled", "simulated", "assumed"]
    assert [str(word) for word in codes.CONFIDENCES[:6]] == words
    assert [int(cause) for cause in Cause] == list(range(len(Cause)))
    assert (Cause.NONE, Cause.BUSY, Cause.RESERVED) == (0, 12, 20)
    assert [int(state) for state in NodeState] == list(range(len(NodeState)))


def test_no_two_fields_of_an_event_share_a_column():
    """Within a kind of event each column has one meaning."""
    for kind in codes.KINDS:
        used = [field.column for field in plain_fields(kind)]
        assert len(set(used)) == len(used), kind


def _batch() -> Batch:
    return convert.of_events(SOME, Dictionary())
