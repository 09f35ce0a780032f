"""Users beside teams: from a spec or a trace, through the journal, to the ledger."""

from collections import Counter
from pathlib import Path

import pytest

from tests.builders import fleet, job, submit, team
from tidemill import api
from tidemill.core import snapshot
from tidemill.ledger.account import Account
from tidemill.model.errors import SpecError
from tidemill.model.policy import Policy
from tidemill.twin import generate, traces
from tidemill.twin.backend import Twin
from tidemill.twin.spec import fleet_spec

FLEET = """
[twin]
seed = 4
horizon = "1d"
[[contract]]
name = "c"
kind = "H100"
count = 16
usd_per_hour = 2
[[team]]
name = "a"
[[job]]
name = "alone"
team = "a"
user = "zoe"
work = "2h"
[[workload]]
name = "w"
team = "a"
per_day = 300
sizes = { 1 = 1 }
run = { median = "5m", mean = "10m" }
"""


def _users(text: str) -> Counter[str]:
    return Counter(arrival.job.user for arrival in generate.stream(fleet_spec.parse(text)))


def test_a_spec_names_users():
    """Names are equally active; jobs of which nobody says it have no user, and none is made up."""
    found = _users(FLEET + 'users = ["ana", "bo"]\n')
    assert set(found) == {"zoe", "ana", "bo"}
    assert abs(found["ana"] - found["bo"]) < 80
    assert set(_users(FLEET)) == {"zoe", ""}


def test_users_have_weights():
    """Three to one is three to one, about; a weight of nothing never submits."""
    found = _users(FLEET + "users = { ana = 3, bo = 1, cy = 0 }\n")
    assert 2 < found["ana"] / found["bo"] < 4.5
    assert "cy" not in found
    with pytest.raises(SpecError, match="`users`: the shares add up to 0"):
        fleet_spec.parse(FLEET + "users = { ana = 0 }\n")


def test_a_number_of_users_is_heavy_at_the_head():
    """A count makes names of the team's own; the first submits more than the tenth."""
    found = _users(FLEET + "users = 12\n")
    assert found["a-user-01"] > 3 * found["a-user-10"] > 0


def test_users_leave_everything_else_as_it_was():
    """They are drawn from a stream of their own: the same jobs come at the same times."""
    plain, named = (
        [(a.at_ms, a.work_ms, a.job.shape) for a in generate.stream(fleet_spec.parse(text))]
        for text in (FLEET, FLEET + "users = 5\n")
    )
    assert plain == named


def test_the_world_and_its_snapshot_know_users():
    """What is loaded from a snapshot has the same users."""
    world = fleet(nodes=1, teams=[team("a")])
    submit(world, job("x", user="ana"), job("y"))
    assert world.job_users == ["ana", ""]
    assert snapshot.load(snapshot.dump(world)).job_users == ["ana", ""]


def test_the_ledger_by_user_adds_up():
    """Users, the unknown user and nobody share what was paid, to the last milli·ms."""
    done = api.simulate(fleet_spec.parse(FLEET))
    by_user: dict[str, Account] = done.statement.by("user")
    assert set(by_user) == {"(nobody)", "(unknown)", "zoe"}
    assert sum(a.paid_milli_ms for a in by_user.values()) == done.statement.total().paid_milli_ms
    alone = done.statement.by("job")["alone"]
    assert by_user["zoe"] == alone


def test_a_trace_with_users_keeps_them_and_its_dates(tmp_path: Path):
    """A column `user` is taken over, an empty cell is unknown; dates have no zone, as published."""
    rows = ["timestamp,duration,num_gpus,cluster,user"]
    rows += ["2017-10-09 07:00:00,600,1,vc1,ana", "2017-10-09 08:30:00,600,2,vc1,"]
    path = tmp_path / "philly.csv"
    path.write_text("\n".join(rows) + "\n")
    trace = traces.load(path, "philly")
    assert [arrival.job.user for arrival in trace.arrivals] == ["ana", ""]
    where = str(tmp_path / "j.sqlite")
    api.run(Twin.from_trace(trace), Policy(), journal=where, calendar=trace.calendar)
    world, _ = api.open_world(where)
    assert world.job_users == ["ana", ""]
    calendar = api.calendar_of(where)
    assert calendar.text(90 * 60_000) == "Mon 2017-10-09 08:30"
