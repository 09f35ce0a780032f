"""How tuples of arrays get into kernels: by a pointer, and only if they are what is wanted."""

import numpy as np
import pytest

from tidemill.compiled import INTERPRETED
from tidemill.core import places
from tidemill.model.world import World


@pytest.mark.skipif(INTERPRETED, reason="interpreted kernels take what Python takes")
@pytest.mark.parametrize("wrong", ["fewer", "flat", "turned"])
def test_a_tuple_of_other_arrays_is_refused(wrong: str):
    """What would be read from the wrong place is never read."""
    w = World().ink.w
    match wrong:
        case "fewer":
            given: object = tuple(w[:-1])
        case "flat":
            given = w._replace(jobs=w.jobs.ravel())
        case _:
            given = w._replace(jobs=np.zeros((4, w.jobs.shape[1]), np.int64).T)
    with pytest.raises(TypeError, match="State"):
        places.hop_of(given, 0)
