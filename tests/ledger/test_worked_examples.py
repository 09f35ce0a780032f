"""Ledgers worked out by hand. Times are minutes, amounts accelerator-minutes unless it says so.

An accelerator-minute is 1000 milli × 60,000 ms = 60,000,000 milli·ms.
"""

from msgspec.structs import replace

from tests.builders import contract, job, node, opening, role, team
from tests.ledger.sums import amounts
from tidemill.ledger import ratios
from tidemill.ledger.account import CENT_MICRO, Account
from tidemill.ledger.buckets import Bucket
from tidemill.ledger.statement import Statement, read
from tidemill.model import events as ev
from tidemill.model.measures import MINUTE_MS
from tidemill.model.reasons import Cause
from tidemill.model.rows import Efficiency, Job, Piece
from tidemill.model.states import Confidence, JobClass, NodeState, Terms

ACCELERATOR_MINUTE = 1000 * MINUTE_MS
MODELLED = Efficiency(400_000, 100_000, 50_000, Confidence.MODELLED)


def minutes(account: Account) -> dict[str, int]:
    """The buckets that hold something, in whole accelerator-minutes."""
    found = {b.name: account.milli_ms[b] for b in Bucket if account.milli_ms[b]}
    assert all(amount % ACCELERATOR_MINUTE == 0 for amount in found.values()), found
    return {name: amount // ACCELERATOR_MINUTE for name, amount in found.items()}


def place(at_min: int, j: int, *where: tuple[int, int], attempt: int = 1) -> list[ev.Event]:
    """Place a gang, one replica on each (node, devices), and let it come up at once."""
    at_ms = at_min * MINUTE_MS
    pieces = tuple(Piece(0, n, 1, mask) for n, mask in where)
    return [ev.AskedPlace(at_ms, j, attempt, pieces), ev.JobStarted(at_ms, j, attempt)]


def submit(at_min: int, *jobs: Job) -> list[ev.Event]:
    return [ev.JobSubmitted(at_min * MINUTE_MS, row) for row in jobs]


def end(at_min: int) -> ev.Event:
    return ev.Woke(at_min * MINUTE_MS)


def hour_of(*events: ev.Event, teams: tuple[str, ...] = ("a",), nodes: int, gpus: int) -> Statement:
    """The first hour of a fleet of Ready nodes, in which these things happen."""
    fleet = opening(
        contract(gpus=nodes * gpus, per_node=gpus), teams=[team(name) for name in teams]
    )
    return read([*fleet, *events, end(60)])


def test_the_seam_of_a_reserved_contract():
    """What is reserved is paid by the calendar, whether it is launched, booting or Ready.

    Four accelerators on two nodes of two, at $2 an hour, for one hour:

        paid            4 × 60                               = 240   $8.00
        not launched    node 0: 2 × 10, node 1: 2 × 60       = 140   $4.6667
        not Ready       node 0 boots from 10 to 20: 2 × 10   =  20   $0.6667
        no demand       node 0 is Ready from 20: 2 × 40      =  80   $2.6667
                                                     total   = 240

    In cents the floors are 466 + 66 + 266 = 798; the two cents that are missing from 800 go to the
    largest remainders, which are equal here, so to the lines that come first: 467, 67, 266.
    """
    row = contract(gpus=4, per_node=2, usd_micro_per_hour=2_000_000)
    events: list[ev.Event] = [
        ev.ContractSigned(0, row),
        ev.ContractStarted(0, 0),
        ev.NodeAdded(0, node("n0")),
        ev.NodeMoved(10 * MINUTE_MS, 0, NodeState.BOOTING),
        ev.NodeMoved(20 * MINUTE_MS, 0, NodeState.READY),
        end(60),
    ]
    account = read(events).total()
    assert minutes(account) == {"NOT_LAUNCHED": 140, "NOT_READY": 20, "NO_DEMAND": 80}
    cents = account.in_units(CENT_MICRO)
    assert [cents[b] for b in (Bucket.NOT_LAUNCHED, Bucket.NOT_READY, Bucket.NO_DEMAND)] == [
        467,
        67,
        266,
    ]
    assert sum(cents) == 800


def test_what_is_free_behind_a_taint_is_kept_from_who_tolerates_it():
    """Two nodes of four of one contract, of which n1 has a taint; n0 is held for the whole hour.

    `plain` (2 GPUs, waits from 0) does not tolerate it, `vision` (3 GPUs, waits from 30) does:

        held by `first` on n0                             4 × 60 = 240
        free on n1 from 0 to 30, and nobody may use it    4 × 30 = 120   no demand
        free on n1 from 30: `vision` waits for 3          3 × 30 =  90   fragmented
        and the fourth, which `plain` may not use         1 × 30 =  30   no demand
                                                           total = 480

    Before, `plain` was said to be kept from two of them for the whole hour.
    """
    taint = (("dedicated", "vision"),)
    fleet: list[ev.Event] = [
        ev.ContractSigned(0, contract(gpus=8, per_node=4)), ev.ContractStarted(0, 0),
        ev.QueueSet(0, team("a")), ev.QueueSet(0, team("b")),
        ev.NodeAdded(0, node("n0")), ev.NodeAdded(0, replace(node("n1"), taints=taint)),
        *(ev.NodeMoved(0, n, to) for n in (0, 1) for to in (NodeState.BOOTING, NodeState.READY)),
    ]  # fmt: skip
    vision = job("vision", roles=[replace(role(gpus=3), tolerates=taint)], team="b")
    statement = read([
        *fleet, *submit(0, job("first", gpus=4, efficiency=MODELLED), job("plain", gpus=2)),
        *place(0, 0, (0, 0b1111)), ev.CauseChanged(0, 1, Cause.SCATTERED),
        *submit(30, vision), ev.CauseChanged(30 * MINUTE_MS, 2, Cause.SCATTERED), end(60),
    ])  # fmt: skip
    found = minutes(statement.total())
    assert (found["NO_DEMAND"], found["FRAGMENTED"]) == (150, 90)
    assert sum(found.values()) == 480
    teams = amounts(statement, "bucket", "team")
    assert {team: milli for (b, team), milli in teams.items() if b == Bucket.FRAGMENTED} == {
        1: 90 * ACCELERATOR_MINUTE
    }


def test_on_demand_is_paid_per_launched_hour():
    """What is not reserved is paid from launch to return; before and after it costs nothing.

    Up to four accelerators at $3 an hour; one node of two is launched at 30, is Ready at 40 and is
    given back at 90, of two hours:

        paid            2 × (90 − 30)   = 120 = 2 h   $6.00
        not Ready       2 × 10          =  20
        no demand       2 × 50          = 100
        not launched                        0: the other two were never asked for

    An on-demand contract has no seam: nobody pays for what was not launched.
    """
    row = contract(gpus=4, per_node=2, usd_micro_per_hour=3_000_000, terms=Terms.ON_DEMAND)
    events: list[ev.Event] = [
        ev.ContractSigned(0, row),
        ev.ContractStarted(0, 0),
        ev.NodeAdded(25 * MINUTE_MS, node("n0")),
        ev.NodeMoved(30 * MINUTE_MS, 0, NodeState.BOOTING),
        ev.NodeMoved(40 * MINUTE_MS, 0, NodeState.READY),
        ev.NodeMoved(90 * MINUTE_MS, 0, NodeState.GONE),
        end(120),
    ]
    account = read(events).total()
    assert minutes(account) == {"NOT_READY": 20, "NO_DEMAND": 100}
    assert account.paid_usd_micro == 6_000_000


def test_a_fragmentation_claim():
    """Free accelerators that a waiting job wants, but not as they lie, are fragmented.

    Two nodes of four. On each, a job of three runs for the whole hour: one and one are free. From
    10 to 40 a job of two on one node waits; it is told that what is free is scattered.

        paid            8 × 60                                   = 480
        the two jobs    2 × 3 × 60                               = 360   worked, unknown
        fragmented      it claims min(2 wanted, 2 free) × 30     =  60   team b
        no demand       2 × (60 − 30)                            =  60   nobody
    """
    statement = hour_of(
        *submit(0, job("x", gpus=3), job("y", gpus=3)),
        *place(0, 0, (0, 0b0111)),
        *place(0, 1, (1, 0b0111)),
        *submit(10, job("z", gpus=2, team="b")),
        ev.CauseChanged(10 * MINUTE_MS, 1, Cause.SCATTERED),
        ev.JobCancelled(40 * MINUTE_MS, 2),
        ev.JobFinished(60 * MINUTE_MS, 0, 1),
        ev.JobFinished(60 * MINUTE_MS, 1, 1),
        teams=("a", "b"),
        nodes=2,
        gpus=4,
    )
    assert minutes(statement.total()) == {"FRAGMENTED": 60, "NO_DEMAND": 60, "UNKNOWN": 360}
    by_team = statement.by("team")
    assert minutes(by_team["b"]) == {"FRAGMENTED": 60}
    assert minutes(by_team["a"]) == {"UNKNOWN": 360}
    assert minutes(by_team["(nobody)"]) == {"NO_DEMAND": 60}


def test_a_quota_claim():
    """Free accelerators that only a limit keeps from waiting jobs are quota-blocked.

    One node of eight; team a may use four and does. Two more jobs of one each wait for the hour:

        paid            8 × 60                                      = 480
        running         4 × 60                                      = 240   worked, unknown
        quota           min(2 jobs × 1 wanted, 4 free) × 60         = 120   team a
        no demand       the other 2 × 60                            = 120   nobody
    """
    statement = hour_of(
        *submit(0, job("x", gpus=4), job("y"), job("z")),
        *place(0, 0, (0, 0b1111)),
        ev.CauseChanged(0, 1, Cause.OVER_LIMIT),
        ev.JobFinished(60 * MINUTE_MS, 0, 1),
        nodes=1,
        gpus=8,
    )
    assert minutes(statement.total()) == {"QUOTA": 120, "NO_DEMAND": 120, "UNKNOWN": 240}
    assert minutes(statement.by("team")["a"]) == {"QUOTA": 120, "UNKNOWN": 240}


def test_a_claim_of_a_quota_that_never_lets_a_gang_in():
    """A gang larger than its team's quota claims what is free as one that must wait for it does.

    Two nodes of eight; team a may use eight, and a gang of 16 waits for the hour: nothing but the
    quota keeps it out, and a larger one lets it in.

        paid            16 × 60                                     = 960
        quota           min(16 wanted, 16 free) × 60                = 960   team a
    """
    gang = submit(0, job("x", gpus=16))
    statement = hour_of(*gang, ev.CauseChanged(0, 0, Cause.OVER_LIMIT_ALWAYS), nodes=2, gpus=8)
    assert minutes(statement.by("team")["a"]) == {"QUOTA": 960}


def test_a_gang_claims_nothing_of_a_type_that_never_holds_it():
    """What is free of a type that could never hold a gang is not kept from it.

    A gang of two nodes of eight waits for its team's quota of H100, of which 16 are free. Nodes of
    four A100 hold none of its replicas; one node of eight L40S holds one of them, not both.

        H100    min(16 wanted, 16 free) × 60   = 960   quota
        A100    32 × 60                        = 1920  no demand
        L40S    8 × 60                         = 480   no demand
    """
    rows = [
        contract("h", gpus=16), contract("a", gpus=32, per_node=4, kind="A100"),
        contract("l", gpus=8, kind="L40S"),
    ]  # fmt: skip
    asked = [*submit(0, job("g", gpus=16)), ev.CauseChanged(0, 0, Cause.OVER_LIMIT), end(60)]
    statement = read([*opening(*rows, teams=[team("a")]), *asked])
    found = {kind: minutes(account) for kind, account in statement.by("kind").items()}
    assert found == {
        "H100": {"QUOTA": 960},
        "A100": {"NO_DEMAND": 1920},
        "L40S": {"NO_DEMAND": 480},
    }


def test_a_held_gang():
    """What is free but too little for a gang that gathers its nodes is held for it.

    Two nodes of four. A job of four runs on node 0 until 30; a gang of two replicas of four waits
    from the beginning and claims the four that are free. At 30 it starts on both nodes.

        paid            8 × 60                                       = 480
        held            min(8 wanted, 4 free) × 30                   = 120   team b
        worked          4 × 30 (the job) + 8 × 30 (the gang)         = 360
    """
    statement = hour_of(
        *submit(0, job("x", gpus=4), job("gang", gpus=8, per_node=4, team="b")),
        *place(0, 0, (0, 0b1111)),
        ev.CauseChanged(0, 1, Cause.PARTIAL_GANG),
        ev.JobFinished(30 * MINUTE_MS, 0, 1),
        *place(30, 1, (0, 0b1111), (1, 0b1111)),
        ev.JobFinished(60 * MINUTE_MS, 1, 1),
        teams=("a", "b"),
        nodes=2,
        gpus=4,
    )
    assert minutes(statement.total()) == {"HELD": 120, "UNKNOWN": 360}
    assert minutes(statement.by("job")["gang"]) == {"UNKNOWN": 240}
    assert minutes(statement.by("team")["b"]) == {"HELD": 120, "UNKNOWN": 240}


def test_rework_with_a_checkpoint():
    """What was done since the last whole checkpoint is lost when an attempt dies.

    A job of two works 10 minutes, saves for 1, and so on. Its first attempt runs from 0 to 25:

        0–10 work, 10–11 save, 11–21 work, 21–22 save, 22–25 work, dead

        lasted          2 × (10 + 10)   = 40
        checkpoint      2 × (1 + 1)     =  4
        rework          2 × 3           =  6

    The second comes up from 25 to 30 (restart) and works from 30. At 41.5 minutes it dies again,
    half a minute after its first save (40–41), so 10 minutes are safe and 0.5 are not:

        restart         2 × 5           = 10
        lasted          2 × 10          = 20
        checkpoint      2 × 1           =  2
        rework          2 × 0.5         =  1

    and the rest of the hour nobody wants the two accelerators: 2 × 18.5 = 37. Together 120.
    """
    half_ms = MINUTE_MS // 2
    statement = hour_of(
        *submit(0, job("x", gpus=2, saves_every_ms=10 * MINUTE_MS, save_ms=MINUTE_MS)),
        *place(0, 0, (0, 0b11)),
        ev.JobFailed(25 * MINUTE_MS, 0, 1),
        ev.AskedPlace(25 * MINUTE_MS, 0, 2, (Piece(0, 0, 1, 0b11),)),
        ev.JobStarted(30 * MINUTE_MS, 0, 2),
        ev.JobFailed(41 * MINUTE_MS + half_ms, 0, 2, is_final=True),
        nodes=1,
        gpus=2,
    )
    assert minutes(statement.total()) == {
        "NO_DEMAND": 37,
        "REWORK": 6 + 1,
        "RESTART": 10,
        "CHECKPOINT": 4 + 2,
        "UNKNOWN": 40 + 20,
    }
    assert statement.cut_short == 2


def test_a_half_written_checkpoint():
    """A save that does not end saves nothing: its stall is a stall, and the work before it is lost.

    A job of two that saves after 10 minutes for 4 dies at 12: 2 × 10 of rework and 2 × 2 of stall.
    """
    statement = hour_of(
        *submit(0, job("x", gpus=2, saves_every_ms=10 * MINUTE_MS, save_ms=4 * MINUTE_MS)),
        *place(0, 0, (0, 0b11)),
        ev.JobFailed(12 * MINUTE_MS, 0, 1, is_final=True),
        nodes=1,
        gpus=2,
    )
    assert minutes(statement.total()) == {"NO_DEMAND": 96, "REWORK": 20, "CHECKPOINT": 4}


def test_an_idle_notebook():
    """An interactive job is idle for the share of the time in which nobody uses it.

    One accelerator for an hour: busy for 20 minutes, idle for 30, half busy for 10.

        idle            30 + 10 / 2       = 35
        worked          20 + 10 / 2       = 25   efficiency unknown

    Nothing of it is ever lost: a notebook that is cancelled keeps what it did.
    """
    statement = hour_of(
        *submit(0, job("n", kind=JobClass.INTERACTIVE)),
        *place(0, 0, (0, 1)),
        ev.ActivitySeen(20 * MINUTE_MS, 0, 1, 0),
        ev.ActivitySeen(50 * MINUTE_MS, 0, 1, 500_000),
        ev.JobCancelled(60 * MINUTE_MS, 0),
        nodes=1,
        gpus=1,
    )
    assert minutes(statement.total()) == {"IDLE": 35, "UNKNOWN": 25}
    assert minutes(statement.by("class")["interactive"]) == {"IDLE": 35, "UNKNOWN": 25}


def test_idle_time_is_idle_whatever_comes_of_the_work():
    """A training job that hangs and is then lost was idle while it hung; only its work is rework.

    One accelerator: works from 0 to 20, hangs from 20 to 50, dies: 20 of rework and 30 of idle.
    """
    statement = hour_of(
        *submit(0, job("x")),
        *place(0, 0, (0, 1)),
        ev.ActivitySeen(20 * MINUTE_MS, 0, 1, 0),
        ev.JobFailed(50 * MINUTE_MS, 0, 1, is_final=True),
        nodes=1,
        gpus=1,
    )
    assert minutes(statement.total()) == {"NO_DEMAND": 10, "IDLE": 30, "REWORK": 20}


def test_a_spare():
    """A spare is idle by design, also while jobs wait; put to use, it is free like any other.

    Two nodes of two, the second a spare. A job of two waits from 0; at 20 node 0 dies, and at 30
    the spare is put to use, where the job starts at once.

        paid            4 × 60                          = 240
        held            node 0 is free for 20: 2 × 20   =  40   (nothing was decided)
        by design       node 1 until 30: 2 × 30         =  60
        unhealthy       node 0 from 20: 2 × 40          =  80
        worked          2 × 30                          =  60
    """
    fleet = opening(contract(gpus=4, per_node=2, spares=1), teams=[team("a")])
    statement = read(
        [
            *fleet,
            *submit(0, job("x", gpus=2)),
            ev.CauseChanged(0, 0, Cause.BEHIND),
            ev.NodeMoved(20 * MINUTE_MS, 0, NodeState.UNHEALTHY),
            ev.AskedSpare(30 * MINUTE_MS, 1, False),
            *place(30, 0, (1, 0b11)),
            ev.JobFinished(60 * MINUTE_MS, 0, 1),
        ]
    )
    assert minutes(statement.total()) == {
        "HELD": 40,
        "BY_DESIGN": 60,
        "UNHEALTHY": 80,
        "UNKNOWN": 60,
    }


def test_what_memory_bandwidth_bounds_is_apart_from_what_is_below_the_attainable_roof():
    """Decoding on its roofline is memory-bound; only what is slower than that roof is below it.

    Both jobs hold one accelerator for the hour and reach 10 % of peak FLOP/s. Memory bandwidth
    allows `roof` 10 % of the peak at its arithmetic intensity: it is on its roof. It allows `half`
    20 %: at its roof its FLOPs would take 30 minutes, of which 6 at peak are useful.

        roof    useful 6, memory-bound 54
        half    useful 6, memory-bound 30 − 6 = 24, below the attainable roof 30
    """
    roof = Efficiency(100_000, confidence=Confidence.MODELLED, attainable_ppm=100_000)
    half = Efficiency(100_000, confidence=Confidence.MODELLED, attainable_ppm=200_000)
    statement = hour_of(
        *submit(0, job("roof", efficiency=roof), job("half", efficiency=half)),
        *place(0, 0, (0, 0b01)),
        *place(0, 1, (0, 0b10)),
        ev.JobFinished(60 * MINUTE_MS, 0, 1),
        ev.JobFinished(60 * MINUTE_MS, 1, 1),
        nodes=1,
        gpus=2,
    )
    by_job = statement.by("job")
    assert minutes(by_job["roof"]) == {"USEFUL": 6, "MEMORY_BOUND": 54}
    assert minutes(by_job["half"]) == {"USEFUL": 6, "MEMORY_BOUND": 24, "BELOW_ROOF": 30}


def test_a_wait_without_a_recorded_cause_is_of_unknown_cause():
    """Four accelerators free, one job waiting for two of them, and no scheduler said why: not
    fragmented, for everything was free.
    """
    statement = hour_of(*submit(0, job("x", gpus=2)), end(60), nodes=1, gpus=4)
    assert minutes(statement.total()) == {"CAUSE_UNKNOWN": 120, "NO_DEMAND": 120}
    assert statement.confidence(Bucket.CAUSE_UNKNOWN) is Confidence.UNKNOWN


def test_how_productive_time_divides():
    """Work that lasted divides by the job's own efficiency, and the three goodputs multiply.

    Two accelerators of four, for the hour; start-up takes 10 minutes. The job says: 40 % model
    FLOPs, 10 % waiting for the host, 5 % for the links. Of 2 × 50 = 100 minutes of work:

        host 10, links 5, useful 40, and the other 45 are below peak, and nobody says why

        scheduling goodput   allocated / paid         120 / 240
        runtime goodput      productive / allocated   100 / 120
        program goodput      useful / productive       40 / 100
        overall                                        40 / 240 = 1/2 × 5/6 × 2/5

    Busy is what neither started nor waited for the host: 90 of 240.
    """
    statement = hour_of(
        *submit(0, job("x", gpus=2, efficiency=MODELLED)),
        ev.AskedPlace(0, 0, 1, (Piece(0, 0, 1, 0b11),)),
        ev.JobStarted(10 * MINUTE_MS, 0, 1),
        ev.JobFinished(60 * MINUTE_MS, 0, 1),
        nodes=1,
        gpus=4,
    )
    account = statement.total()
    assert minutes(account) == {
        "NO_DEMAND": 120,
        "STARTING": 20,
        "HOST": 10,
        "LINKS": 5,
        "BELOW_PEAK": 45,
        "USEFUL": 40,
    }
    goodput, seen = ratios.goodput(account), ratios.utilisation(account)
    assert [str(part) for part in goodput[:3]] == ["1/2", "5/6", "2/5"]
    assert str(goodput.overall) == "1/6"
    assert [str(part) for part in seen[:3]] == ["1/2", "3/8", "1/6"]


def test_a_quarter_of_an_accelerator():
    """A fraction of a device counts as that fraction; the rest of the device is free.

    A job of 250 milli on the only accelerator, for 40 minutes: 10 worked; free are 3/4 × 40 + 20.
    """
    statement = hour_of(
        *submit(0, job("x", milli=250)),
        *place(0, 0, (0, 1)),
        ev.JobFinished(40 * MINUTE_MS, 0, 1),
        nodes=1,
        gpus=1,
    )
    assert minutes(statement.total()) == {"NO_DEMAND": 50, "UNKNOWN": 10}


def test_each_role_claims_only_what_it_may_use():
    """A gang of unlike roles claims of each kind what its roles on that kind ask for.

    Two H100 and four A100 are free. A gang waits for one trainer of 4 H100 and two of 1 A100 each:

        H100    min(4 wanted, 2 free) × 60   = 120   fragmented
        A100    min(2 wanted, 4 free) × 60   = 120   fragmented
        A100    the other 2 × 60             = 120   no demand
    """
    rows = contract("h", gpus=2, per_node=2), contract("a", gpus=4, per_node=4, kind="A100")
    gang = job("g", roles=[role(gpus=4, kinds=["H100"]), role(2, name="eval", kinds=["A100"])])
    statement = read(
        [
            *opening(*rows, teams=[team("a")]),
            *submit(0, gang),
            ev.CauseChanged(0, 0, Cause.BUSY),
            end(60),
        ]
    )
    assert minutes(statement.by("kind")["H100"]) == {"FRAGMENTED": 120}
    assert minutes(statement.by("kind")["A100"]) == {"FRAGMENTED": 120, "NO_DEMAND": 120}


def test_a_job_that_can_never_run_claims_nothing():
    """Free accelerators stay without demand when the only job that waits can never fit."""
    statement = hour_of(
        *submit(0, job("x", gpus=64, per_node=8)),
        ev.CauseChanged(0, 0, Cause.IMPOSSIBLE_SIZE),
        nodes=1,
        gpus=2,
    )
    assert minutes(statement.total()) == {"NO_DEMAND": 120}


def test_who_was_promised_room_claims_first():
    """A shape for which room is being made claims before an older one and a higher priority.

    Two are free and three jobs of two wait: x (oldest), y (priority 9), z (promised, as its victim
    leaves). z claims both for as long as it waits.
    """
    statement = hour_of(
        *submit(0, job("v", gpus=2), job("x", gpus=2), job("y", gpus=2, priority=9)),
        *submit(0, job("z", gpus=2, team="b", priority=-1)),
        *place(0, 0, (0, 0b0011)),
        ev.AskedEvict(0, 0, 1, ev.Why.RECLAIMED, 3),
        *(ev.CauseChanged(0, s, Cause.BUSY) for s in (0, 1)),
        ev.CauseChanged(0, 2, Cause.PROMISED),
        teams=("a", "b"),
        nodes=1,
        gpus=4,
    )
    assert minutes(statement.by("team")["b"]) == {"HELD": 120}


def test_the_older_of_two_promises_claims_first():
    """Among shapes for which room is being made, age decides and not priority.

    Two are free; y (team a, older) and z (team b, priority 9) were both promised room for two.
    """
    statement = hour_of(
        *submit(0, job("v", gpus=1), job("w", gpus=1)),
        *submit(0, job("y", gpus=2), job("z", gpus=2, team="b", priority=9)),
        *place(0, 0, (0, 0b0001)),
        *place(0, 1, (0, 0b0010)),
        ev.AskedEvict(0, 0, 1, ev.Why.RECLAIMED, 2),
        ev.AskedEvict(0, 1, 1, ev.Why.RECLAIMED, 3),
        *(ev.CauseChanged(0, s, Cause.PROMISED) for s in (1, 2)),
        teams=("a", "b"),
        nodes=1,
        gpus=4,
    )
    assert statement.by("team")["a"].milli_ms[Bucket.HELD] == 120 * ACCELERATOR_MINUTE
    assert "b" not in statement.by("team")


def test_a_report_that_says_nothing_new_changes_nothing():
    """Hearing every ten seconds that a job is as busy as before does not cut its stretch.

    333 milli at a third each for host, links and useful leave a remainder in every division, so a
    stretch that began anew with each report would divide differently.
    """
    thirds = Efficiency(333_333, 333_333, 333_333, Confidence.MEASURED)
    row = job("x", milli=333, kind=JobClass.INFERENCE, efficiency=thirds)
    reports = [ev.ActivitySeen(at_ms, 0, 1, 1_000_000) for at_ms in range(1, 59 * MINUTE_MS, 9_999)]
    quiet, told = (
        hour_of(*submit(0, row), *place(0, 0, (0, 1)), *said, nodes=1, gpus=1)
        for said in ([], reports)
    )
    assert told.total() == quiet.total()


def test_a_team_goes_first_only_while_it_is_below_its_floor():
    """Who claims follows the use of each team, also after a share of a new kind was named.

    Four are free. x (team b, older) and y (team a, floor of two) both want four. Team a has
    nothing, so y claims all four for 30 minutes. Then b is given a share of a kind that nobody
    knew, and a's job v takes two: a has its floor, and the other two are claimed by the older x.
    """
    fleet = opening(contract(gpus=4, per_node=4), teams=[team("a", floor=2), team("b")])
    statement = read(
        [
            *fleet,
            *submit(0, job("x", gpus=4, team="b"), job("y", gpus=4), job("v", gpus=2)),
            *(ev.CauseChanged(0, s, Cause.BUSY) for s in range(3)),
            ev.QueueSet(30 * MINUTE_MS, team("b", floor=1, kind="B200")),
            *place(30, 2, (0, 0b0011)),
            end(60),
        ]
    )
    by_team = statement.by("team")
    assert minutes(by_team["a"]) == {"FRAGMENTED": 120, "UNSAVED": 60}
    assert minutes(by_team["b"]) == {"FRAGMENTED": 60}
