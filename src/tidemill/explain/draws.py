"""Draws: how a job's run time differs from one simulated future to the next.

In each future every job takes the time that some share of its like does not exceed. The shares of
one job are spread evenly over its futures (one of each part of 0 to 1, so that few futures still
see short, usual and long: McKay, Beckman and Conover, Technometrics 21, 1979), and the order of the
parts is each job's own, so that jobs are short or long independently of each other. No chance: a
number is mixed from the job's and the future's (splitmix64); equal questions have equal answers.
"""

from typing import NamedTuple

from tidemill.model.measures import ONE_PPM

_MASK = 2**64 - 1


class Draw(NamedTuple):
    """One future of a prime number of them."""

    future: int
    futures: int

    def of_job(self, j: int) -> int:
        """The share of its like than which a job takes longer, in this future; in ppm."""
        return self._share_ppm(j)

    def of_node(self, n: int) -> int:
        """The same of the repair of a node."""
        return self._share_ppm(-1 - n)

    def _share_ppm(self, number: int) -> int:
        own = _mixed(number)
        step = 1 + own % (self.futures - 1)
        part = (own // self.futures + step * self.future) % self.futures
        inside = _mixed(own + self.future + 1) % ONE_PPM
        return (part * ONE_PPM + inside) // self.futures


def draws(futures: int) -> list[Draw]:
    """All of so many futures."""
    return [Draw(future, futures) for future in range(futures)]


def _mixed(number: int) -> int:
    """The finalizer of splitmix64 (Steele, Lea and Flood, OOPSLA 2014)."""
    x = (number * 0x9E3779B97F4A7C15 + 0x9E3779B97F4A7C15) & _MASK
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & _MASK
    x = (x ^ x >> 27) * 0x94D049BB133111EB & _MASK
    return x ^ x >> 31
