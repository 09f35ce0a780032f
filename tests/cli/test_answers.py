"""The benchmark of whole commands runs, on a small story."""

from bench import answers
from tests.cli.conftest import TINY


def test_whole_commands_are_timed():
    """Each question is asked in a process of its own; `why` costs the least, `pending` more."""
    found = answers.run(1, str(TINY), "31h", ("why", "pending"))
    assert found["reference_per_cpu_s"] > 0
    assert found["why"]["cpu_s"] > 0
    assert found["why"]["thousand_reference_steps"] <= found["pending"]["thousand_reference_steps"]
