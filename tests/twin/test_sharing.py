"""The sharing mode of a fleet decides what a request for a part of a device becomes."""

from pathlib import Path

import pytest

from tidemill.engine.loop import Loop
from tidemill.ledger.buckets import Bucket
from tidemill.ledger.reader import Ledger
from tidemill.ledger.spans import Window
from tidemill.ledger.statement import Statement
from tidemill.model.errors import SpecError
from tidemill.model.measures import DAY_MS, HOUR_MS, WHOLE_MILLI
from tidemill.model.rows import Role
from tidemill.model.world import World
from tidemill.twin.backend import Twin
from tidemill.twin.spec import fleet_spec
from tidemill.twin.spec.tables import Spec

EXAMPLE = Path("examples/sharing-a-gpu.toml").read_text(encoding="utf-8")


def told(mode: str, text: str = EXAMPLE) -> Spec:
    """A day of the example under a mode."""
    return fleet_spec.parse(
        text.replace('"mps"', f'"{mode}"', 1).replace('horizon = "4d"', 'horizon = "1d"')
    )


def played(mode: str) -> tuple[list[Role], Statement]:
    """The requests that came, and the ledger of the day."""
    story, world = told(mode), World()
    ledger = Ledger(story.policy, Window(0, DAY_MS, HOUR_MS))
    Loop(world, story.policy, Twin.from_spec(story), None, [ledger]).run(until_ms=DAY_MS)
    return [shape.roles[0] for shape in world.shape_rows], Statement(ledger)


def test_beside_each_other_parts_stay_parts_and_neighbours_slow_each_other():
    """Under MPS a half is a half, and what it costs is on the ledger."""
    roles, statement = played("mps")
    assert {role.milli for role in roles} == {250, 500}
    assert statement.total().milli_ms[Bucket.INTERFERENCE] > 0


def test_exclusive_gives_each_a_device_of_its_own():
    """Nobody has a neighbour, so nobody is slowed."""
    roles, statement = played("exclusive")
    assert {role.milli for role in roles} == {WHOLE_MILLI}
    account = statement.total()
    assert account.milli_ms[Bucket.INTERFERENCE] == 0
    assert sum(account.milli_ms) == 32 * WHOLE_MILLI * DAY_MS


def test_mig_gives_each_the_smallest_instance_that_does():
    """Half a device and 60 GB is 3g.71gb of an H200; a quarter and 20 GB is 1g.35gb."""
    roles, statement = played("mig")
    assert {(role.profile, role.milli) for role in roles} == {("3g.71gb", 500), ("1g.35gb", 250)}
    account = statement.total()
    assert account.milli_ms[Bucket.INTERFERENCE] == 0
    assert sum(account.milli_ms) == 32 * WHOLE_MILLI * DAY_MS


def test_a_part_that_cannot_be_cut_is_refused_with_what_to_do():
    """TPUs have no instances: the message names the job, the kind and the other modes."""
    story = told("mig", EXAMPLE.replace('"H200"', '"TPU-V5E"'))
    with pytest.raises(SpecError, match="no MIG instance of `TPU-V5E`") as refused:
        list(Twin.from_spec(story).take(World()))
    assert "mps" in refused.value.hint
