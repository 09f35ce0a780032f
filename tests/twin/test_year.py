"""The bench of a year, in small: what it reports is what the run and its journal hold."""

from bench import year
from tidemill import api
from tidemill.ledger import saving
from tidemill.model.policy import Policy


def test_a_few_days_are_reported_as_they_were():
    """Every job that came has a row, most have ended, and the ledger reads the journal."""
    found = year.run(days=4, nodes=4)
    assert found["days"] in (3, 4)
    assert 0 < found["ended"] <= found["jobs"]
    assert found["events"] > 3 * found["ended"]
    assert found["ledger_command"]["cpu_s"] > 0
    assert len(found["resident_mib_by_quarter"]) <= 4
    assert max(found["resident_mib_by_quarter"], default=0) <= found["peak_mib"]


def test_what_is_worth_saving_is_found_without_asking_all():
    """Where each job is a group of its own only some are reckoned; the best are the same."""
    statement = api.run(year.twin(4, 4), Policy()).statement
    every = saving.best(statement, most=10**6)
    assert len(every) > 50
    for most in (1, 5, 20):
        assert saving.best(statement, most) == every[:most]
