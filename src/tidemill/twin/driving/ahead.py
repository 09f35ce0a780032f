"""The kernels that every replay calls, for ``compiled.ahead``: those that take longest first."""

from tidemill.core import arrivals, decay, estimates, fold, lines, places, replay
from tidemill.core.accounting import attempts
from tidemill.core.accounting import reading as ledger
from tidemill.engine.check import expecting, reading, reservations
from tidemill.provisioning import looking
from tidemill.scheduling.backfill import ends
from tidemill.scheduling.desk import (
    cycle,
    gathering,
    moving,
    opening,
    reserving,
    role_by_role,
    stopping,
)
from tidemill.scheduling.desk import lines as asking
from tidemill.scheduling.fitting import ladders, node_ranking, sweeps
from tidemill.twin.driving import beats
from tidemill.twin.event_queue import heap, lives

KERNELS = (
    cycle.work_off, beats.drive, node_ranking.seat, node_ranking.seat_among_few,
    reserving.reserve, ladders.fill_tied,
    node_ranking.seat_beside, gathering.gather, opening.begin, replay.replay, fold.finished,
    fold.placed, fold.wait_again, heap.push, heap.pop, lives.carry_out, opening.is_news,
    opening.close, cycle.hold, gathering.may_hold, sweeps.fill, ends.follow, ends.end_first,
    attempts.write_open, attempts.follow, expecting.expected, ledger.pass_time,
    reservations.read_passing, replay.fold_one, ledger.read, reading.read, lives.happen,
    stopping.find_victims, reserving.reserve_by_halving, role_by_role.fit_largest, arrivals.note,
    moving.find_moves, arrivals.count_hosts, arrivals.take_over, arrivals.find_large,
    estimates.total_ms, decay.left_after,
    lines.line_up, places.put_back, places.take_out, reservations.is_judged, reservations.is_turn,
    looking.mind_nodes, looking.nodes_to_launch, looking.return_idle, looking.turn_spares,
    asking.is_asked, opening.next_question, lives.is_rare, lives.wake,
)  # fmt: skip
