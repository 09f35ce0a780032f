"""A real Slurm on this machine: munge, MariaDB, slurmdbd, slurmctld and some slurmd, on loopback.

Everything lives in one folder, on free ports, and is stopped by process id. GPUs are character
devices that stand for `/dev/null`: Slurm counts, types and indexes them like real ones. Needs root
(`mknod`, several users) and the packages that ``tools/slurm.sh`` installs.
"""

import os
import shutil
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import SystemRandom

from tests.rigs.slurm import files

NEEDED = ("slurmctld", "slurmd", "slurmdbd", "sacct", "munged", "mariadbd")
CGROUPS = Path("/sys/fs/cgroup")
DAEMONS = ("slurm", "munged", "mariadbd")
"""How the programs of a rig are called, at their beginning."""
PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
POLL_S = 0.05
QUEUE = "%i %j %T %r %N %b"
MEMORY = Path("/dev/shm")


def quick_folder() -> str | None:
    """Where to put the rig: in memory where there is room for it (starts twice as fast)."""
    is_roomy = MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > 1 << 30
    return str(MEMORY) if is_roomy and os.access(MEMORY, os.W_OK) else None


class RigError(RuntimeError):
    """The rig does not come up; the message holds the end of the logs."""


def missing() -> str:
    """Why no real Slurm can be started here; empty where it can."""
    if os.geteuid() != 0:
        return "it needs root (character devices, several users)"
    if not any(CGROUPS.glob("*")):
        return f"slurmd needs control groups, and none are mounted on {CGROUPS}"
    lacking = [name for name in NEEDED if not shutil.which(name, path=PATH)]
    return f"no {', '.join(lacking)} here; hint: tools/slurm.sh installs it" if lacking else ""


@contextmanager
def running(folder: Path, nodes: int = 4, *, has_parts: bool = False) -> Iterator["Cluster"]:
    """Start all of it, and stop all of it afterwards, whatever happened."""
    cluster = Cluster(folder, nodes, has_parts=has_parts)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


class Cluster:
    """The processes of one rig, and its client commands."""

    def __init__(self, folder: Path, nodes: int, *, has_parts: bool = False) -> None:
        self.folder, self.nodes, self.has_parts = folder, nodes, has_parts
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.environment = {
            "PATH": PATH,
            "SLURM_CONF": str(folder / "slurm.conf"),
            "LC_ALL": "C.UTF-8",
            "TZ": "UTC",
        }

    def start(self) -> None:
        """Bring everything up; returns when all nodes are idle."""
        folder, ports = self.folder, free_ports(self.nodes + 3)
        for name in ("state", "spool", "log", "munge", "db", "gpus"):
            (folder / name).mkdir(parents=True)
        folder.chmod(0o755)
        files.write(
            folder, self.nodes, ports,
            has_no_cgroup=self._version() >= 23, has_parts=self.has_parts,
        )  # fmt: skip
        for gpu in range(files.GPUS):
            place = folder / "gpus" / f"nvidia{gpu}"
            os.mknod(place, 0o20666, os.makedev(1, 3))
        self._munge()
        self._database(ports[0])
        self._daemon("slurmdbd", "slurmdbd", "-D")
        self._until("slurmdbd answers", lambda: self.ok("sacctmgr", "-n", "show", "cluster"))
        self.run("sacctmgr", "-i", "add", "cluster", files.NAME)
        # Before the controller: one that hears of an account in the middle of its own start has the
        # users of it without the account, and no limit ever reaches it.
        self._accounts()
        self._daemon("slurmctld", "slurmctld", "-D")
        for node in range(1, self.nodes + 1):
            self._daemon(f"n{node}", "slurmd", "-D", "-N", f"n{node}")
        self._until("all nodes are idle", self._all_idle)
        # A limit over GPUs can be set only after the controller has told the database of them, and
        # the controller hears of it only if it has registered by then: it is told until it knows.
        self._until("the controller knows the limit over GPUs", self._is_limited)

    def stop(self) -> None:
        """End every process that was started, the last one first, and what their jobs left."""
        for name, process in reversed(self.processes.items()):
            self._end(name, process)
        self.processes.clear()
        self._end_steps()

    def run(self, *arguments: str, timeout_s: float = 20) -> str:
        """Run a client command; what it prints."""
        done = subprocess.run(
            arguments,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
        if done.returncode:
            raise RigError(f"{' '.join(arguments)}: {done.stdout}{done.stderr}")
        return done.stdout

    def tell(self, program: str, lines: str, *options: str) -> None:
        """Several lines to one client that reads commands; it goes on after one that fails."""
        done = subprocess.run(
            [program, *options], env=self.environment, input=lines.strip() + "\n",
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        if done.returncode or done.stderr:
            raise RigError(f"{program}: {done.stdout}{done.stderr}")

    def ok(self, *arguments: str) -> bool:
        """Whether a client command answers."""
        try:
            self.run(*arguments, timeout_s=3)
        except (RigError, subprocess.TimeoutExpired):
            return False
        return True

    def wait_for(self, what: str, is_so: Callable[[], bool], timeout_s: float = 60) -> None:
        """Until something that the cluster does by itself has happened."""
        try:
            self._until(what, is_so, timeout_s)
        except RigError as error:
            raise RigError(f"{error}\n{self.run('squeue', '-t', 'all', '-o', QUEUE)}") from None

    def _version(self) -> int:
        """The year of the Slurm that is installed: `slurm-wlm 22.05.8` is of 22."""
        printed = subprocess.run(["slurmctld", "-V"], env=self.environment, capture_output=True,
                                 text=True, check=True).stdout  # fmt: skip
        return int(printed.split()[-1].partition(".")[0])

    def _munge(self) -> None:
        key = self.folder / "munge" / "key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o400)
        places = {"socket": "sock", "pid-file": "pid", "seed-file": "seed", "log-file": "log"}
        options = [f"--{name}={self.folder / 'munge' / file}" for name, file in places.items()]
        self._daemon("munged", "munged", "--foreground", "--force", f"--key-file={key}", *options)
        self._until("munged listens", (self.folder / "munge" / "sock").exists)

    def _database(self, port: int) -> None:
        place = self.folder / "db"
        # A server that starts removes the temporary tables in its folder for such: another one's,
        # if both have the machine's.
        own = f"--tmpdir={place / 'tmp'}"
        (place / "tmp").mkdir()
        for folder in (place, place / "tmp"):
            shutil.chown(folder, "mysql")
        self.run(
            "mariadb-install-db",
            "--no-defaults",
            "--user=mysql",
            f"--datadir={place / 'data'}",
            own,
            "--auth-root-authentication-method=normal",
            "--skip-test-db",
            timeout_s=60,
        )
        self._daemon(
            "mariadbd",
            "mariadbd",
            "--no-defaults",
            "--user=mysql",
            f"--datadir={place / 'data'}",
            own,
            f"--socket={place / 'sock'}",
            f"--pid-file={place / 'pid'}",
            "--bind-address=127.0.0.1",
            f"--port={port}",
            "--skip-log-bin",
            "--innodb-flush-log-at-trx-commit=0",  # nothing here has to survive the machine
            "--innodb-buffer-pool-size=64M",
        )
        client = ("mariadb", "--no-defaults", "-S", str(place / "sock"), "-u", "root", "-e")
        self._until("MariaDB answers", lambda: self.ok(*client, "select 1"))
        self.run(*client, files.DATABASE)

    def _accounts(self) -> None:
        for arguments in files.ACCOUNTS:
            self.run("sacctmgr", "-i", *arguments)

    def _is_limited(self) -> bool:
        self.run("sacctmgr", "-i", *files.GPU_LIMIT)
        return files.KNOWN_LIMIT in self.run("scontrol", "show", "assoc_mgr", "accounts=small")

    def _all_idle(self) -> bool:
        if not self.ok("scontrol", "ping"):
            return False
        return set(self.run("sinfo", "-h", "-N", "-o", "%T").split()) == {"idle"}

    def _daemon(self, name: str, *arguments: str) -> None:
        with (self.folder / "log" / f"{name}.out").open("wb") as log:
            self.processes[name] = subprocess.Popen(
                arguments,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _until(self, what: str, is_so: Callable[[], bool], timeout_s: float = 60) -> None:
        tick = threading.Event()  # never set: the world outside has no event to wait for
        for _ in range(int(timeout_s / POLL_S)):
            if is_so():
                return
            for name, process in self.processes.items():
                if process.poll() is not None:
                    raise RigError(f"{name} ended while waiting until {what}\n{self._log(name)}")
            tick.wait(POLL_S)
        raise RigError(f"not within {timeout_s} s: {what}\n{self._log('slurmctld')}")

    def _log(self, name: str) -> str:
        found = [*(self.folder / "log").glob(f"{name}*")]
        return "\n".join(path.read_text(errors="replace")[-2000:] for path in found)

    def _end(self, name: str, process: "subprocess.Popen[bytes]") -> None:
        if process.poll() is None:
            # MariaDB takes its time over SIGTERM, and nothing of it is kept.
            process.send_signal(signal.SIGKILL if name == "mariadbd" else signal.SIGTERM)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(10)

    def _end_steps(self) -> None:
        """slurmstepd and its tasks outlive slurmd by design: end those of this folder."""

        def are_gone() -> bool:
            left = self.own_processes()
            for number in left:
                with suppress(ProcessLookupError):
                    os.kill(number, signal.SIGKILL)
            return not left

        self._until("all processes of this folder have ended", are_gone, 10)

    def own_processes(self) -> list[int]:
        """Daemons of this folder and tasks of its jobs; who only asks it (an observer) is none."""
        found = [int(entry.name) for entry in Path("/proc").glob("[0-9]*")]
        return [number for number in found if number != os.getpid() and self._is_own(number)]

    def _is_own(self, number: int) -> bool:
        """A daemon or a task by its environment, or, since 24.11 overwrites that of slurmstepd, a
        daemon by its open log.
        """
        process = Path("/proc") / str(number)
        own = f"SLURM_CONF={self.folder / 'slurm.conf'}".encode()
        log = f"{self.folder / 'log'}/"
        try:
            is_daemon = (process / "comm").read_text().startswith(DAEMONS)
            given = (process / "environ").read_bytes().split(b"\0")
            is_task = any(one.startswith(b"SLURM_JOB_ID=") for one in given)
            if own in given and (is_daemon or is_task):
                return True
            links = (process / "fd").iterdir() if is_daemon else ()
            return any(log in str(link.readlink()) for link in links)  # also through a chroot
        except OSError:  # ended by itself, or not ours to read
            return False


def free_ports(count: int) -> list[int]:
    """Ports that nothing listens on now, below those that the system gives to connections."""
    found = list[int]()
    for port in SystemRandom().sample(range(20_000, 32_000), 12_000):
        with socket.socket() as one:
            try:
                one.bind(("", port))
            except OSError:
                continue
        found.append(port)
        if len(found) == count:
            return found
    raise RigError(f"{count} free ports were asked for, {len(found)} found")
