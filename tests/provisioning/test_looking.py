"""A look at the nodes: what it says in one word is what a review asks for."""

import pytest

from tests.engine.stories import played, seeds
from tidemill.engine.fold.one_event import fold
from tidemill.model.claims import NO_CLAIMS
from tidemill.model.measures import HOUR_MS, MINUTE_MS
from tidemill.model.policy import Policy
from tidemill.model.world import World
from tidemill.provisioning import looking
from tidemill.provisioning.columns import LOOK
from tidemill.provisioning.review import ProvisioningMemo, review

POLICIES = (
    Policy(),
    Policy(drain_ms=HOUR_MS, scale_up_after_ms=MINUTE_MS, return_idle_after_ms=5 * MINUTE_MS),
)
EVERY = 7  # events


@pytest.mark.parametrize("seed", list(seeds(6)))
def test_quiet_is_a_review_that_asks_for_nothing(seed: int):
    """At many moments of random stories; and both would look again at the same time."""
    world, found = World(), {True: 0, False: 0}
    for i, event in enumerate(played(seed, "twin").kept):
        fold(world, event)
        for policy in POLICIES if i % EVERY == 0 else ():
            memo = ProvisioningMemo()
            asked = review(world, policy, memo, NO_CLAIMS)
            u = memo.supply(world, policy)
            is_quiet = bool(looking.is_quiet(world.matrices, u, world.now_ms))
            assert is_quiet == (not asked.actions)
            if is_quiet:
                assert u.look[LOOK.WAKE_MS] == asked.wake_ms
            found[is_quiet] += 1
    assert all(found.values())
