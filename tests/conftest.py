"""What every test may ask for: the hypothesis profile that CI runs, and the recorded traces."""

import os
from pathlib import Path

import pytest
from hypothesis import settings
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

ROOT = Path(__file__).resolve().parent.parent

# Same examples on every run, and no deadline: the machines that run this are shared and noisy.
# Without the profile (plain `pytest`) hypothesis looks for new examples each time, also
# without a deadline: the first example may load a compiled loop.
settings.register_profile("ci", derandomize=True, deadline=None, print_blob=True)
settings.register_profile("plain", deadline=None)
settings.load_profile("plain")


TOGETHER = {
    "tests/docs/test_tour.py": "demo",
    "tests/live/prometheus/test_books.py": "prometheus",
    "tests/live/prometheus/test_reading.py": "prometheus",
    "tests/live/prometheus/test_windows.py": "prometheus",
    "tests/live/slurm/test_import.py": "slurm",
    "tests/live/slurm/test_observe.py": "watched",
    "tests/live/slurm/test_real.py": "slurm",
    "tests/live/slurm/test_suspended.py": "suspended",
    "tests/live/slurm/test_waiting.py": "slurm",
    "tests/live/kubernetes/test_access.py": "kubernetes",
    "tests/live/kubernetes/test_causes.py": "kubernetes",
    "tests/live/kubernetes/test_observing.py": "kubernetes",
    "tests/live/kubernetes/test_watching.py": "kubernetes",
    "tests/report/test_browser.py": "chromium",
    "tests/engine/test_cycle.py": "stage",
    "tests/explain/test_decision.py": "stage",
    "tests/engine/test_fold_batch.py": "stage",
    "tests/engine/test_simulations.py": "stage",
    "tests/engine/test_stories.py": "stage",
    "tests/ledger/test_lending.py": "stage",
    "tests/ledger/test_oracle.py": "stage",
    "tests/ledger/test_usable.py": "stage",
    "tests/twin/test_stretch.py": "stretch",
}
"""Files whose tests run in one process: they share the run of the demo, the real Slurm or
Prometheus, the browser (one at a time: it takes both cores), or the stories played on the stage or
by the twin; or they all wait for the same kernels to be compiled, where another process had better
do something else."""


class Scheduling(LoadScopeScheduling):
    """Test by test, except for what belongs together; the largest of that first.

    `--dist loadgroup` of pytest-xdist 3.8 does nothing under pytest 9: it marks a group in a field
    that pytest no longer has.
    """

    def _split_scope(self, nodeid: str) -> str:
        group = TOGETHER.get(nodeid.partition("::")[0], nodeid)
        return "twin" if group == "stage" and nodeid.endswith("[twin]") else group


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Scheduling:
    """How tests are given to the processes of `make test`."""
    return Scheduling(config, log)


@pytest.fixture(scope="session")
def traces() -> Path:
    """The folder of recorded cluster traces; large, so not in the repository."""
    asked = os.environ.get("TIDEMILL_TRACES")
    folder = Path(asked) if asked else ROOT.parent / "shared" / "traces"
    if not folder.is_dir():
        pytest.skip(
            f"this test replays recorded traces, and there is no folder {folder}; "
            "hint: set TIDEMILL_TRACES to the folder that holds them"
        )
    return folder
