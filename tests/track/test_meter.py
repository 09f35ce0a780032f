"""Where the time of a loop goes: exact sums, nesting, and what is not known."""

from hypothesis import given
from hypothesis import strategies as st

from tidemill.track.meter import MOST_STEPS, LoopPart, LoopWindow, StepAmounts, StepMeter

OTHER, COMPUTE, DATA, COMMUNICATION, CHECKPOINT = LoopPart
NOBODY_SAID = StepAmounts()


def test_the_innermost_part_counts():
    """Communication within a step is no compute, and a checkpoint within it is neither."""
    meter = StepMeter(0)
    step = meter.begin_step(10)
    talk = meter.enter(30, COMMUNICATION)
    meter.leave(35, talk)
    save = meter.enter(40, CHECKPOINT)
    meter.leave(60, save)
    meter.end_step(100, step, None, NOBODY_SAID)
    window = meter.cut(103)
    assert window.spent_us == (13, 65, 0, 5, 20)
    assert window.used == (True, True, False, True, True)


def test_a_step_takes_the_time_since_the_last_one_ended():
    """Waiting for data between steps belongs to the next step; the first begins with itself."""
    meter = StepMeter(0)
    for begin, end in ((1000, 1010), (1040, 1050), (1051, 1080)):
        meter.end_step(end, meter.begin_step(begin), None, NOBODY_SAID)
    assert meter.cut(2000).step_us == [10, 40, 30]


def test_steps_count_on_from_a_checkpoint():
    """After a restore the numbers go on, and the time of restoring is no step's."""
    meter = StepMeter(0)
    meter.end_step(10, meter.begin_step(0), None, NOBODY_SAID)
    meter.count_from(500)
    meter.end_step(5010, meter.begin_step(5000), None, NOBODY_SAID)
    window = meter.cut(6000)
    assert (window.first_step, window.last_step, window.step_us) == (1, 501, [10, 10])


def test_a_step_within_a_step_is_the_same_step():
    """A callback and a hand-written block around it count one step together."""
    meter = StepMeter(0)
    outer = meter.begin_step(0)
    inner = meter.begin_step(5)
    meter.end_step(8, inner, None, NOBODY_SAID)
    meter.end_step(10, outer, None, NOBODY_SAID)
    assert meter.cut(10).step_us == [10]


def test_a_step_that_failed_is_no_step():
    """Its time is spent all the same."""
    meter = StepMeter(0)
    meter.drop_step(7, meter.begin_step(0))
    window = meter.cut(7)
    assert (window.step_us, window.spent_us[COMPUTE]) == ([], 7)


def test_what_one_step_did_not_say_is_unknown():
    """A sum over steps of which one is silent would be too small: it is left out."""
    meter = StepMeter(0)
    meter.end_step(1, meter.begin_step(0), None, StepAmounts(tokens=5, samples=2))
    meter.end_step(2, meter.begin_step(1), None, StepAmounts(tokens=5))
    assert meter.cut(2).amounts == StepAmounts(tokens=10)
    meter.end_step(3, meter.begin_step(2), None, StepAmounts(samples=2))
    assert meter.cut(3).amounts == StepAmounts(samples=2)


def test_leaving_a_part_leaves_what_was_entered_in_it():
    """A part that nobody left (an interruption) ends with the part around it."""
    meter = StepMeter(0)
    step = meter.begin_step(0)
    meter.enter(5, DATA)
    meter.end_step(9, step, None, NOBODY_SAID)
    meter.leave(12, 2)  # comes too late, and does nothing
    assert meter.cut(20).spent_us == (11, 5, 4, 0, 0)


def test_a_window_is_full_after_a_thousand_steps():
    """What is kept for the median is bounded."""
    meter = StepMeter(0)
    full = [
        meter.end_step(t + 1, meter.begin_step(t), None, NOBODY_SAID) for t in range(MOST_STEPS)
    ]
    assert full == [False] * (MOST_STEPS - 1) + [True]


ACTS = st.lists(
    st.tuples(st.integers(0, 10**7), st.sampled_from(["enter", "leave", "begin", "end", "cut"])),
    max_size=60,
)


@given(ACTS, st.integers(0, 10))
def test_parts_add_up_and_windows_leave_no_gap(acts: list[tuple[int, str]], choice: int):
    """Whatever a loop does: parts are never negative, add up to the window, and windows touch."""
    meter, now_us, tickets, step, windows = StepMeter(5), 5, [0], 0, list[LoopWindow]()
    ended = 0
    for elapsed_us, act in acts:
        now_us += elapsed_us
        if act == "enter":
            tickets.append(meter.enter(now_us, LoopPart(2 + (choice + len(tickets)) % 3)))
        elif act == "leave":
            meter.leave(now_us, tickets[choice % len(tickets)])
        elif act == "begin":
            step = meter.begin_step(now_us) or step
        elif act == "end":
            before = meter.step
            meter.end_step(now_us, step, None, NOBODY_SAID)
            ended += meter.step - before
        else:
            windows.append(meter.cut(now_us))
    windows.append(meter.cut(now_us))
    for window in windows:
        assert sum(window.spent_us) == window.until_us - window.from_us
        assert min(window.spent_us) >= 0
    assert [w.from_us for w in windows] == [5, *(w.until_us for w in windows[:-1])]
    assert sum(len(w.step_us) for w in windows) == ended
