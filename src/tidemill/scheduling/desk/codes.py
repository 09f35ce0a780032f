"""Why the compiled cycle comes back: what Python is asked to do, about the shape in ``REG.WHO``."""

from enum import IntEnum


class CODE(IntEnum):
    """What Python is asked to do."""

    OVER = 0  # nothing: the line is empty
    FIT = 1  # fit a shape, and deal with it
    FAILED = 2  # a shape does not fit, for REG.CAUSE: search for victims, or keep a promise
    SUPPLY = 3  # say what supply says about it
    OUTLASTS = 4  # say whether it would fit if others ended
    PREPARE = 5  # write the requests of its options
    MAKE = 6  # make the reservations that were claimed
    STEP = 7  # a job of it was placed: go on to the next, in an order that Python knows
    TELL = 8  # take over what was decided so far
    KNOW = 9  # write what it asks for
    WATCH = 10  # look at the desk: the job that is watched (REG.WATCHED) is the next in line


OVER, FIT, FAILED, SUPPLY, OUTLASTS, PREPARE, MAKE, STEP, TELL, KNOW, WATCH = map(int, CODE)
DONE = -1  # with a shape; among kernels alone
