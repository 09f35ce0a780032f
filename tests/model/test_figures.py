"""Figures of a job as one packed number."""

from hypothesis import given
from hypothesis import strategies as st

from tidemill.model.figures import MASKS, STEPS, DeviceFigure, figure_of, with_figure


@given(st.lists(st.tuples(st.sampled_from([*DeviceFigure]), st.integers(-1, 50)), max_size=20))
def test_each_figure_is_the_last_that_was_told(told: list[tuple[DeviceFigure, int]]):
    """In whole steps, whatever the others are; -1: not measured; nothing told is not measured."""
    packed, wanted = 0, dict.fromkeys(DeviceFigure, -1)
    for figure, steps in told:
        value = -1 if steps < 0 else min(steps, MASKS[figure] - 1) * STEPS[figure]
        packed, wanted[figure] = with_figure(packed, figure, value), value
    assert {figure: max(-1, figure_of(packed, figure)) for figure in DeviceFigure} == wanted
    assert 0 <= packed < 1 << 62


def test_what_is_too_large_does_not_reach_into_another():
    """A clock of 100 GHz is the most that its field holds."""
    packed = with_figure(0, DeviceFigure.WATTS, 10**8)
    assert figure_of(packed, DeviceFigure.CLOCK_MHZ) < 0
    assert (
        figure_of(packed, DeviceFigure.WATTS)
        == (MASKS[DeviceFigure.WATTS] - 1) * STEPS[DeviceFigure.WATTS]
    )
