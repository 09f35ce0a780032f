"""The bench of a long history, in small: what it reports is what its journal holds."""

from collections import Counter
from pathlib import Path

import pytest

from bench import slurm_import, slurm_past
from tests.ledger.sums import amounts
from tidemill import api
from tidemill.ledger.buckets import ALLOCATED
from tidemill.live.history import events
from tidemill.live.prices import rules
from tidemill.live.slurm import translate
from tidemill.model.measures import WHOLE_MILLI


def test_the_whole_command_is_measured():
    """Every row was read, every job has its events, and the answers come from the journal."""
    found = slurm_import.run(jobs=600, nodes=16)
    assert found["rows"] > found["jobs"] == 600
    assert found["events"] > 3 * found["jobs"]
    rate = found["rows"] / found["import"]["cpu_s"]
    assert found["rows_per_cpu_s"] == pytest.approx(rate, rel=0.01)
    for name in ("import", "ledger", "why --at", "report"):
        assert found[name]["cpu_s"] > 0
        assert found[name]["peak_mib"] > 20


def test_a_generated_cluster_is_booked_as_its_text_says(tmp_path: Path):
    """GPU-seconds by account, summed from the text by hand; nobody holds what another holds."""
    text, nodes, _ = slurm_past.write(tmp_path, 3_000, 8)
    past = translate.read([text, nodes], "UTC")
    history = events.build(past.attempts, past.nodes, rules.flat({rules.ANY: 1_000_000}))
    statement = api.keep_history(history).statement
    teams = [queue.name for queue in statement.world.queue_rows]
    found = Counter[str]()
    for (bucket, team), amount in amounts(statement, "bucket", "team").items():
        found[teams[team]] += amount if bucket in ALLOCATED else 0
    assert history.over == 0
    assert +found == _by_hand(text, (history.begins_ms + history.length_ms) // 1000)


def _by_hand(text: Path, until: int) -> Counter[str]:
    header, *lines = text.read_text().splitlines()
    found = Counter[str]()
    for line in lines:
        row = dict(zip(header.split("|"), line.split("|"), strict=True))
        if "." not in row["JobID"] and row["Start"] != "Unknown":
            gpus = int(row["AllocTRES"].partition("gres/gpu=")[2].partition(",")[0])
            end = until if row["End"] == "Unknown" else int(row["End"])
            found[row["Account"]] += gpus * (end - int(row["Start"])) * 1000 * WHOLE_MILLI
    return found
