"""Asking a source again and again until told to stop; a source that is down is asked less often."""

from collections.abc import Callable

from tidemill.live.observing.observer import AnswerTaken, Observer
from tidemill.model.errors import BackendError

LONGEST_PAUSE_S = 300.0
"""Between two questions to a source that is down."""

Wait = Callable[[float], bool]
"""Waits so many seconds; true: it is time to stop."""


def watch(
    observer: Observer,
    every_s: float,
    wait: Wait,
    on_taken: Callable[[AnswerTaken], None],
    on_down: Callable[[BackendError, float], None],
) -> None:
    """Ask until ``wait`` says stop.

    ``on_down``: the source does not answer, and is asked again after so many seconds.
    """
    pause_s = every_s
    while True:
        try:
            taken = observer.ask()
        except BackendError as error:
            on_down(error, pause_s)
            if wait(pause_s):
                return
            pause_s = min(2 * pause_s, max(LONGEST_PAUSE_S, every_s))
            continue
        pause_s = every_s
        on_taken(taken)
        if wait(every_s):
            return
