"""The benchmark of whole commands runs, on a small story."""

from bench import answers
from tests.cli.conftest import TINY


def test_whole_commands_are_timed():
    """Each question is asked in a process of its own, and its CPU is told beside the reference."""
    found = answers.run(1, str(TINY), "31h", ("why", "pending"))
    assert found["reference_per_cpu_s"] > 0
    for question in ("why", "pending"):
        assert found[question]["cpu_s"] > 0
        assert found[question]["thousand_reference_steps"] > 0
