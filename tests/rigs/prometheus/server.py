"""A real Prometheus on this machine, on loopback, with series that were recorded before.

Everything lives in one folder, on a free port, and is stopped by process id. Series come as
OpenMetrics text and are made into blocks by ``promtool``, so that nothing has to be waited for.
Needs the package that ``tools/prometheus.sh`` installs.
"""

import http.client
import shutil
import subprocess
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.rigs.slurm.cluster import free_ports

NEEDED = ("prometheus", "promtool")
POLL_S = 0.05
LAST = "# EOF"
CONFIG = "global:\n  scrape_interval: 30s\n"


class RigError(RuntimeError):
    """The rig does not come up; the message holds the end of the log."""


def missing() -> str:
    """Why no real Prometheus can be started here; empty where it can."""
    lacking = [name for name in NEEDED if not shutil.which(name)]
    return f"no {', '.join(lacking)} here; hint: tools/prometheus.sh installs it" if lacking else ""


@contextmanager
def running(folder: Path, series: Iterable[str], *options: str) -> Iterator[str]:
    """Start it on these lines of OpenMetrics; gives its address, and stops it afterwards."""
    load(folder, series)
    (port,) = free_ports(1)
    (folder / "prometheus.yml").write_text(CONFIG)
    arguments = [
        "prometheus",
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        "--storage.tsdb.retention.time=100y",
        f"--web.listen-address=127.0.0.1:{port}",
        "--log.level=warn",
        *options,
    ]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            arguments, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
        try:
            _wait(process, port, folder)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(10)


def load(folder: Path, series: Iterable[str]) -> None:
    """Make blocks of the lines of a text in OpenMetrics' format."""
    text = folder / "series.txt"
    with text.open("w", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in series if line.strip() != LAST)
        file.write(f"{LAST}\n")
    made = subprocess.run(
        ["promtool", "tsdb", "create-blocks-from", "openmetrics", "--max-block-duration=24h",
         "--quiet", text, folder / "data"],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    if made.returncode:
        raise RigError(f"promtool: {made.stdout}{made.stderr}")
    text.unlink()


def _wait(process: "subprocess.Popen[bytes]", port: int, folder: Path) -> None:
    tick = threading.Event()  # never set: the server has no event to wait for
    for _ in range(int(20 / POLL_S)):
        if process.poll() is not None:
            break
        if _answers(port):
            return
        tick.wait(POLL_S)
    raise RigError(f"Prometheus does not answer\n{(folder / 'log').read_text()[-2000:]}")


def _answers(port: int) -> bool:
    """Whether it is ready, or says (behind TLS, or to nobody without a password) that it is up."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=1)
    try:
        connection.request("GET", "/-/ready")
        return connection.getresponse().status != 503
    except OSError:
        return False
    finally:
        connection.close()
