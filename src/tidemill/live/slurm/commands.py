"""Slurm's commands as this project runs them: exact arguments, a time limit, bounded output.

None of them changes anything. Times are asked for in seconds since 1970 (`SLURM_TIME_FORMAT=%s`),
so no zone has to be known, and fields are separated by a character that no name holds. When the
controller is down Slurm's clients try again for minutes; here they are stopped after
``timeout_s``. `SLURM_CONF` and the rest of the environment are passed on.
"""

import os
import re
import selectors
import subprocess
import tempfile
import time
from collections.abc import Iterable, Mapping
from typing import IO, BinaryIO, NamedTuple, cast

from msgspec import Struct

from tidemill.live.slurm.reading import SlurmReading, open_output
from tidemill.model.errors import BackendError

DELIMITER = "\x1f"
"""ASCII's unit separator."""

TIMEOUT_S = 60.0
MOST_BYTES = 4 << 30
"""Of one command's output: about 10 million rows of sacct. It goes to a file without a name."""

SACCT_COLUMNS = (
    *("JobIDRaw", "JobID", "Cluster", "User", "UID", "Account", "Partition", "QOS", "Reservation"),
    *("JobName", "State", "Reason", "Submit", "Eligible", "Start", "End", "TimelimitRaw"),
    "Suspended",
    *("NodeList", "NNodes", "ReqNodes", "AllocCPUS", "ReqCPUS", "ReqTRES", "AllocTRES"),
    *("Constraints", "TotalCPU", "MaxRSS", "NTasks"),
)
"""In every version since 21.08; a column that a version does not have makes sacct stop."""


class SlurmCommand(Struct, frozen=True):
    """One command: its arguments, and what it is for."""

    about: str
    arguments: tuple[str, ...]

    def words(self) -> str:
        """As a person would type it."""
        return " ".join(self.arguments).replace(DELIMITER, "$'\\x1f'")


def history(begin: str) -> SlurmCommand:
    """Job attempts that were eligible since then, of all users.

    ``begin`` as sacct takes it: `2026-11-01`, `now-7days`, or seconds since 1970 with a leading
    `uts`. Jobs that are held or wait for another job are not eligible, so sacct leaves them out:
    ``queue`` has them. ``--duplicates`` shows the earlier attempts of requeued jobs. Rows of steps
    come with it: what a job used is said there alone (with ``--allocations`` it is 0).
    """
    arguments = (
        *("sacct", "--allusers", "--duplicates", "--parsable2", f"--delimiter={DELIMITER}"),
        *("--starttime", begin, "--endtime", "now", "--format", ",".join(SACCT_COLUMNS)),
    )
    return SlurmCommand("the history of jobs", arguments)


QUEUE = SlurmCommand("the queue", ("squeue", "--all", "--states=all", "--json"))
"""With the jobs that ended a moment ago, which the controller still knows (`MinJobAge`)."""
NODES = SlurmCommand("nodes", ("scontrol", "--all", "--details", "--oneliner", "show", "node"))
PARTITIONS = SlurmCommand("partitions", ("scontrol", "--all", "--oneliner", "show", "partition"))
RESERVATIONS = SlurmCommand("reservations", ("scontrol", "--oneliner", "show", "reservation"))
ASSOCIATION_COLUMNS = (
    "Cluster,Account,User,Partition,ParentName,Share,GrpTRES,GrpJobs,GrpSubmit,GrpWall,"
    "GrpTRESMins,GrpTRESRunMins,MaxTRES,MaxTRESPerNode,MaxJobs,MaxSubmit,MaxWall,QOS"
)
"""By itself `show assoc` does not say which account is above which."""
ASSOCIATIONS = SlurmCommand(
    "limits of accounts and users",
    ("sacctmgr", "--parsable2", "show", "assoc", f"format={ASSOCIATION_COLUMNS}"),
)
QOS = SlurmCommand("limits of QOS", ("sacctmgr", "--parsable2", "show", "qos"))
CLOCK = SlurmCommand("the controller's clock", ("sdiag",))


def downtime(begin: str) -> SlurmCommand:
    """When nodes were down or drained since then, and why."""
    arguments = ("sacctmgr", "--parsable2", "show", "event", "All_Time", f"Start={begin}")
    return SlurmCommand("when nodes were down", arguments)


def read(
    command: SlurmCommand,
    *,
    timeout_s: float = TIMEOUT_S,
    most_bytes: int = MOST_BYTES,
    environment: Mapping[str, str] | None = None,
) -> SlurmReading:
    """Run a command and open what it printed; use it as a context manager.

    Its ``errors`` are what the command complained of on the side, and went on all the same.
    """
    output, errors = run(
        command, timeout_s=timeout_s, most_bytes=most_bytes, environment=environment
    )
    opened = open_output(output)
    opened.errors = errors
    return opened


class Printed(NamedTuple):
    """What a command printed."""

    output: BinaryIO
    """In a file without a name, which the caller closes."""
    errors: tuple[str, ...]
    """What it complained of on the side, and called itself successful."""


def run(
    command: SlurmCommand,
    *,
    timeout_s: float = TIMEOUT_S,
    most_bytes: int = MOST_BYTES,
    environment: Mapping[str, str] | None = None,
) -> Printed:
    """Run a command. ``BackendError`` if it does not work, whatever its exit code says."""
    output = cast(BinaryIO, tempfile.TemporaryFile())  # noqa: SIM115 - the caller closes it
    try:
        said = _run(command, output, timeout_s, most_bytes, environment)
        if said and output.tell() == 0:  # nothing is an answer if nobody complains
            raise _failed(command, 0, said)
        errors = tuple(line for line in said.splitlines() if _ERROR.search(line))
        refuse_known(command, errors)
        output.seek(0)
    except BaseException:
        output.close()
        raise
    return Printed(output, errors)


_ERROR = re.compile(r"\b(error|fatal)\b", re.IGNORECASE)


def refuse_known(command: SlurmCommand, errors: Iterable[str]) -> None:
    """Refuse an answer beside which the command says that it did not get all of it."""
    for line in errors:
        if any(sign.lower() in line.lower() for signs, _, _ in CAUSES for sign in signs):
            raise _failed(command, 0, line)


def _run(
    command: SlurmCommand,
    output: BinaryIO,
    timeout_s: float,
    most_bytes: int,
    environment: Mapping[str, str] | None,
) -> str:
    """Copy what the command prints, as long as it may; what it said on the side."""
    given = dict(os.environ if environment is None else environment)
    if "--json" not in command.arguments:  # 22.05's sacct --json finds no job with this set
        given["SLURM_TIME_FORMAT"] = "%s"
    with tempfile.TemporaryFile() as side:
        try:
            process = subprocess.Popen(
                command.arguments,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=side,
                env=given,
            )
        except FileNotFoundError:
            raise _not_installed(command) from None
        except PermissionError:
            raise _asked(command, "that it may not be run here", "ask for the right to") from None
        with process:
            try:
                _copy(command, process, output, time.monotonic() + timeout_s, most_bytes)
            except BaseException:
                process.kill()
                raise
        side.seek(0)
        errors = side.read(SIDE_BYTES).decode("utf-8", "replace").strip()
    if process.returncode:
        raise _failed(command, process.returncode, errors)
    return errors


SIDE_BYTES = 64 << 10


def _copy(
    command: SlurmCommand,
    process: "subprocess.Popen[bytes]",
    output: BinaryIO,
    until: float,
    most_bytes: int,
) -> None:
    pipe = cast(IO[bytes], process.stdout)
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        while (left := until - time.monotonic()) > 0:
            if not selector.select(left):
                break
            block = os.read(pipe.fileno(), 1 << 20)
            if not block:
                try:
                    process.wait(max(until - time.monotonic(), 0.1))
                except subprocess.TimeoutExpired:  # it has closed its output, and stays
                    raise _too_slow(command) from None
                return
            output.write(block)
            if output.tell() > most_bytes:
                found = f"more than {most_bytes:,} bytes"
                raise _asked(command, found, "ask for a shorter time, in several steps")
    raise _too_slow(command)


# --- what went wrong ----------------------------------------------------------------------------


def _asked(command: SlurmCommand, found: str, hint: str) -> BackendError:
    return BackendError(
        f"asked Slurm for {command.about} (`{command.words()}`); found {found}", hint=hint
    )


def _not_installed(command: SlurmCommand) -> BackendError:
    name = command.arguments[0]
    return _asked(
        command,
        f"no command `{name}` here",
        "run it where Slurm's clients are (a login node), or install slurm-client; "
        "files that its commands printed elsewhere can be read too",
    )


def _too_slow(command: SlurmCommand) -> BackendError:
    return _asked(
        command,
        "no answer in time",
        "is the controller up (scontrol ping), and slurmdbd for sacct and sacctmgr? "
        "A long history takes longer: ask for a shorter time, or wait longer",
    )


CAUSES = (
    (
        ("slurmdbd", "accounting storage is disabled", "talking to the database", "persist"),
        "no accounting database",
        "sacct and sacctmgr need slurmdbd; without it squeue and scontrol tell of the present only",
    ),
    (
        ("Unable to contact slurm controller", "Connection", "Socket timed out", "Zero Bytes"),
        "that the controller does not answer",
        "is slurmctld up (scontrol ping), and is SLURM_CONF the right file?",
    ),
    (
        ("Access/permission denied", "permission", "Invalid authentication credential", "munge"),
        "no permission",
        "run it as a user that may see all jobs (PrivateData, AdminLevel), with munge running",
    ),
    (
        ("configuration", "SLURM_CONF", "resolve_ctls", "fetch_config"),
        "no configuration of Slurm",
        "set SLURM_CONF to slurm.conf, or run it on a machine of the cluster",
    ),
    (
        ("nvalid field requested", "unrecognized option", "Unknown condition", "invalid option"),
        "a version of Slurm without that option",
        "21.08 is the oldest that is known to work",
    ),
)
"""Words on the side, what they mean and what to do; the first that fits wins."""


def _failed(command: SlurmCommand, code: int, errors: str) -> BackendError:
    line = errors.partition("\n")[0] or f"exit code {code} and no message"
    lowered = errors.lower()
    for signs, found, hint in CAUSES:
        if any(sign.lower() in lowered for sign in signs):
            return _asked(command, f"{found} ({line})", hint)
    return _asked(command, line, "run it by hand to see more")
