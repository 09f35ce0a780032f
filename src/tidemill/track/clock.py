"""What time is it, on a clock that never goes back?"""

from time import monotonic_ns, time_ns


class RunClock:
    """Microseconds since the epoch: the monotonic clock, set by the wall clock when a run began.

    Spans of a run are therefore never negative and add up, whatever is done to the wall clock
    meanwhile; by how much the two have come apart is told in each record (``skew_us``).
    """

    __slots__ = ("_offset_ns",)

    def __init__(self) -> None:
        self._offset_ns = time_ns() - monotonic_ns()

    def us(self, at_ns: int) -> int:
        """The time at a reading of the monotonic clock."""
        return (at_ns + self._offset_ns) // 1000

    def now_us(self) -> int:
        """The time now."""
        return self.us(monotonic_ns())

    def skew_us(self) -> int:
        """The wall clock less this one: what was done to it since the run began."""
        return time_ns() // 1000 - self.now_us()
