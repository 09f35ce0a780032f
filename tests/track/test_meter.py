"""Where the time of a loop goes: exact sums, nesting, and what is not known."""

from hypothesis import given
from hypothesis import strategies as st

from tidemill.track.meter import MOST_STEPS, LoopPart, LoopWindow, StepAmounts, StepMeter

OTHER, COMPUTE, DATA, COMMUNICATION, CHECKPOINT = LoopPart
NOBODY_SAID = StepAmounts()


def step(meter: StepMeter, begin: int, end: int, number: int = 1, **amounts: int) -> bool:
    """A step from one time to another."""
    meter.begin_step(begin)
    return meter.end_step(end, number, StepAmounts(**amounts))


def test_the_innermost_part_counts():
    """Communication within a step is no compute, and a checkpoint within it is neither."""
    meter = StepMeter(0)
    meter.begin_step(10)
    meter.enter(30, COMMUNICATION)
    meter.leave(35, COMMUNICATION)
    meter.enter(40, CHECKPOINT)
    meter.leave(60, CHECKPOINT)
    meter.end_step(100, 1, NOBODY_SAID)
    window = meter.cut(103)
    assert window.spent_us == (13, 65, 0, 5, 20)
    assert window.used == (True, True, False, True, True)


def test_a_step_takes_the_time_since_the_last_one_ended():
    """Waiting for data between steps belongs to the next step; the first begins with itself."""
    meter = StepMeter(0)
    for number, (begin, end) in enumerate(((1000, 1010), (1040, 1050), (1051, 1080)), 4):
        step(meter, begin, end, number)
    window = meter.cut(2000)
    assert (window.step_us, window.first_step, window.last_step) == ([10, 40, 30], 4, 6)


def test_the_time_of_restoring_is_no_step_s():
    """After a checkpoint was read, the next step begins with itself."""
    meter = StepMeter(0)
    step(meter, 0, 10)
    meter.start_again()
    step(meter, 5000, 5010)
    meter.begin_step(5020)
    meter.start_again()
    meter.end_step(5023, 1, NOBODY_SAID)
    assert meter.cut(6000).step_us == [10, 10, 3]


def test_when_a_loop_begins_to_work_is_told_once():
    """With its first part, and again with the first one after it went back."""
    meter = StepMeter(0)
    assert meter.cut(10).up_us is None
    meter.enter(15, DATA)
    meter.leave(16, DATA)
    step(meter, 18, 19)
    assert [meter.cut(20).up_us, meter.cut(30).up_us] == [15, None]
    meter.start_again()
    assert meter.cut(40).up_us is None
    step(meter, 45, 50)
    meter.begin_step(52)
    assert meter.cut(60).up_us == 45
    meter.start_again()
    assert meter.cut(70).up_us == 60, "it went back within a step, and is in it still"


def test_a_step_that_failed_is_no_step():
    """Its time is spent all the same."""
    meter = StepMeter(0)
    meter.begin_step(0)
    meter.drop_step(7)
    window = meter.cut(7)
    assert (window.step_us, window.spent_us[COMPUTE]) == ([], 7)


def test_what_one_step_did_not_say_is_unknown():
    """A sum over steps of which one is silent would be too small: it is left out."""
    meter = StepMeter(0)
    step(meter, 0, 1, tokens=5, samples=2)
    step(meter, 1, 2, tokens=5)
    assert meter.cut(2).amounts == StepAmounts(tokens=10)
    step(meter, 2, 3, samples=2)
    assert meter.cut(3).amounts == StepAmounts(samples=2)


def test_leaving_a_part_leaves_what_was_entered_in_it():
    """A part that nobody left (an interruption) ends with the part around it."""
    meter = StepMeter(0)
    meter.begin_step(0)
    meter.enter(5, DATA)
    meter.end_step(9, 1, NOBODY_SAID)
    meter.leave(12, DATA)  # comes too late, and does nothing
    assert meter.cut(20).spent_us == (11, 5, 4, 0, 0)


def test_a_time_before_the_cut_is_the_time_of_the_cut():
    """The loop read the clock, and the window was cut before it could say so."""
    meter = StepMeter(0)
    meter.begin_step(10)
    meter.cut(100)
    meter.end_step(99, 1, NOBODY_SAID)
    window = meter.cut(150)
    assert (window.spent_us, window.step_us) == ((50, 0, 0, 0, 0), [89])


def test_a_window_is_full_after_a_thousand_steps():
    """What is kept for the median is bounded."""
    meter = StepMeter(0)
    full = [step(meter, t, t + 1) for t in range(MOST_STEPS)]
    assert full == [False] * (MOST_STEPS - 1) + [True]


ACTS = st.lists(
    st.tuples(
        st.integers(-3, 10**7),
        st.sampled_from(["enter", "leave", "begin", "drop", "end", "cut"]),
        st.sampled_from([DATA, COMMUNICATION, CHECKPOINT]),
    ),
    max_size=60,
)


@given(ACTS)
def test_parts_add_up_and_windows_leave_no_gap(acts: list[tuple[int, str, LoopPart]]):
    """Whatever a loop does: parts are never negative, add up to the window, and windows touch."""
    meter, now_us, windows, ended = StepMeter(5), 5, list[LoopWindow](), 0
    for elapsed_us, act, part in acts:
        now_us = max(5, now_us + elapsed_us)
        if act == "enter":
            meter.enter(now_us, part)
        elif act == "leave":
            meter.leave(now_us, part)
        elif act == "begin":
            meter.begin_step(now_us)
        elif act == "drop":
            meter.drop_step(now_us)
        elif act == "end":
            meter.end_step(now_us, ended, NOBODY_SAID)
            ended += 1
        else:
            windows.append(meter.cut(now_us))
    windows.append(meter.cut(now_us))
    for window in windows:
        assert sum(window.spent_us) == window.until_us - window.from_us
        assert min(window.spent_us) >= 0
        assert min(window.step_us, default=0) >= 0
    assert [w.from_us for w in windows] == [5, *(w.until_us for w in windows[:-1])]
    assert sum(len(w.step_us) for w in windows) == ended
