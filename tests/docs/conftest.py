"""What the pages are tried on: a small story and small traces, in a folder as a reader has it."""

import gzip
import json
import shutil
from pathlib import Path

import pytest

from tests.docs.pages import ROOT
from tidemill import api

MODEL = {
    "model_type": "llama", "hidden_size": 2048, "intermediate_size": 8192, "vocab_size": 32000,
    "num_hidden_layers": 16, "num_attention_heads": 16, "num_key_value_heads": 8,
}  # fmt: skip
TINY = Path(__file__).with_name("tiny.toml")


@pytest.fixture(scope="session")
def told(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The journal of the small story, run once."""
    journal = tmp_path_factory.mktemp("told") / "demo.sqlite"
    api.simulate(api.load_spec(TINY), str(journal))
    return journal


@pytest.fixture
def desk(told: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A reader's folder: the journal that `make demo` leaves, examples, a spec and a few traces."""
    (tmp_path / "out").mkdir()
    for name in ("out/demo.sqlite", "tidemill.sqlite"):
        shutil.copy(told, tmp_path / name)
    shutil.copy(TINY, tmp_path / "fleet.toml")
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    (tmp_path / "my-model").mkdir()
    (tmp_path / "my-model" / "config.json").write_text(json.dumps(MODEL), encoding="utf-8")
    _write_traces(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TIDEMILL_JOURNAL", raising=False)
    return tmp_path


def _write_traces(folder: Path) -> None:
    """A dozen rows in each of the formats that the pages import."""
    philly = ["timestamp,duration,num_gpus,gpu_time,cluster"]
    philly += [f"2017-10-09 07:{i:02d}:00,{600 * i}.0,{i},{600 * i * i}.0,a" for i in range(1, 13)]
    with gzip.open(folder / "philly.csv.gz", "wt", encoding="utf-8") as file:
        file.write("\n".join(philly) + "\n")
    (folder / "elasticflow").mkdir()
    rows = [f"job-{i},{60 * i},{900 * i},{2 ** (i % 4)}" for i in range(1, 13)]
    text = "\n".join(["job_id,submission_time,duration,num_gpu", *rows]) + "\n"
    (folder / "elasticflow" / "cluster04.csv").write_text(text, encoding="utf-8")
    (folder / "faults").mkdir()
    faults = [
        {"node_id": "a", "event_time": 0.1 * i, "event_type": kind}
        for i, kind in enumerate(("fault_start", "fault_end") * 3, 1)
    ]
    (folder / "faults" / "fault_trace.json").write_text(json.dumps(faults), encoding="utf-8")
