"""Running commands: what is asked, how long it may take, and what is said when it does not work.

Real programs stand in for Slurm's here; a real Slurm is in ``test_real``.
"""

import time

import pytest

from tidemill.live.slurm import commands
from tidemill.live.slurm.commands import SlurmCommand
from tidemill.model.errors import BackendError


def shell(script: str) -> SlurmCommand:
    """A command that behaves as the script says."""
    return SlurmCommand("the weather", ("sh", "-c", script))


def test_the_history_is_asked_for_whole():
    """All users, all attempts, a delimiter that no name holds."""
    asked = commands.history("now-7days")
    assert asked.arguments[:5] == (
        *("sacct", "--allusers", "--duplicates", "--parsable2", "--delimiter=\x1f"),
    )
    assert "--allocations" not in asked.arguments  # what jobs used is said of steps alone
    assert "$'\\x1f'" in asked.words()


def test_what_is_printed_is_read():
    """Times come in seconds since 1970, because they are asked for so."""
    with commands.read(
        shell("echo JobID\\|Start; echo 7\\|$(date +$SLURM_TIME_FORMAT)")
    ) as reading:
        [job] = reading.rows()
    assert job.job_id == 7
    assert abs(job.start_ms / 1000 - time.time()) < 60


def test_a_command_that_is_not_installed_is_told():
    """With what to do."""
    with pytest.raises(BackendError, match="no command `sacct` here") as caught:
        commands.run(commands.history("now-1hour"), environment={"PATH": "/nowhere"})
    assert "slurm-client" in caught.value.hint


def test_a_command_that_hangs_is_stopped():
    """After the time that it was given, not after minutes; and it is gone then."""
    began = time.monotonic()
    with pytest.raises(BackendError, match="no answer in time"):
        commands.run(shell("exec sleep 60"), timeout_s=0.2)
    assert time.monotonic() - began < 10


def test_output_is_bounded():
    """A command that prints for ever is stopped."""
    with pytest.raises(BackendError, match="more than 1,000,000 bytes"):
        commands.run(shell("exec yes"), most_bytes=1_000_000)


@pytest.mark.parametrize(
    ("said", "found", "hint"),
    [
        (
            "slurm_load_jobs error: Unable to contact slurm controller",
            "controller",
            "scontrol ping",
        ),
        ("Slurm accounting storage is disabled", "no accounting database", "slurmdbd"),
        ("Sending PersistInit msg: Connection refused", "no accounting database", "slurmdbd"),
        ("slurm_load_node error: Access/permission denied", "no permission", "PrivateData"),
        ("fatal: Could not establish a configuration source", "no configuration", "SLURM_CONF"),
        ("unrecognized option '--json'", "without that option", "21.08"),
        ("it rains", "it rains", "by hand"),
    ],
)
def test_what_went_wrong_is_told(said, found, hint):
    """What was asked, what was found, what to do; also when the exit code says nothing."""
    for code in (1, 0):
        with pytest.raises(BackendError, match=found) as caught:
            commands.run(shell(f'echo "sacct: error: {said}" >&2; exit {code}'))
        assert "asked Slurm for the weather" in caught.value.message
        assert hint in caught.value.hint


def test_the_exit_code_is_told_where_nothing_else_is():
    """A command that fails in silence."""
    with pytest.raises(BackendError, match="exit code 7 and no message"):
        commands.run(shell("exit 7"))
