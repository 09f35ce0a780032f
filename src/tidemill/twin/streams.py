"""Chance, one stream per purpose: drawing more of one thing never changes another.

A stream is named by words and numbers, not by when it was made. So a node meets the same faults
under every policy, and two runs of one seed differ only by what was decided (common random numbers;
Law, *Simulation Modeling and Analysis*, ch. 11).
"""

from zlib import crc32

import numpy as np


class Streams:
    """The streams of one seed."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def of(self, purpose: str, *numbers: int) -> np.random.Generator:
        """The stream of this purpose, from its beginning; ``numbers`` tell equal purposes apart."""
        entropy = [self.seed, crc32(purpose.encode()), *numbers]
        return np.random.Generator(np.random.PCG64(np.random.SeedSequence(entropy)))
