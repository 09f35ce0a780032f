"""``tidemill prometheus`` as people type it, against a server that answers as told."""

import json
from pathlib import Path

from typer.testing import CliRunner

from tests.rigs.prometheus.lying import GOOD, Asked, Told, lying
from tidemill.cli.main import app
from tidemill.live.prometheus import fields

BEGIN_S = 1_789_999_200
SERIES = (
    b'{"metric":{"__name__":"DCGM_FI_DEV_GPU_UTIL","Hostname":"n1","gpu":"0","UUID":"GPU-1",'
    b'"namespace":"ml","pod":"a"},"values":[%s]}'
)
VALUES = b",".join(b'[%d.123,"50"]' % (BEGIN_S + 30 * i) for i in range(120))


def answering(_: int, asked: Asked) -> Told:
    """One GPU with one metric, for one hour."""
    found = b"[]"
    if "/label/" in asked.path:
        return Told(body=b'{"status":"success","data":["DCGM_FI_DEV_GPU_UTIL"]}')
    if "/series" in asked.path:
        return Told(body=b'{"status":"success","data":[]}')
    if "time%28%29" in asked.path:
        return Told(body=GOOD.replace(b"1790000000", b"1790010000"))  # the hour is long over
    if "DCGM" in asked.path and f"time={BEGIN_S + 3599}" in asked.path:
        found = b"[" + SERIES % VALUES + b"]"
    return Told(body=b'{"status":"success","data":{"resultType":"matrix","result":%s}}' % found)


def run(*words: str) -> tuple[int, str, str]:
    """The exit code, and what was printed where."""
    done = CliRunner().invoke(app, ["prometheus", *words])
    return done.exit_code, done.stdout, done.stderr


def test_fields_are_listed():
    """Every name of the table, in the table on the screen and in JSON."""
    code, printed, _ = run("fields")
    assert code == 0
    code, as_json, _ = run("fields", "--json")
    rows = json.loads(as_json)["fields"]
    assert [row["metric"] for row in rows] == [row.metric for row in fields.table()]
    assert [row["metric"] for row in rows if row["metric"] not in printed] == []


def test_check_says_what_is_there_and_what_is_missing():
    """Quantities, whose GPUs, what to add; and that the server's clock is months off."""
    with lying(answering) as (url, _):
        code, printed, said = run("check", url, "--at", "2026-09-21T14:30")
        found = json.loads(run("check", url, "--at", "2026-09-21T14:30", "--json")[1])
    assert code == 0
    assert "DCGM_FI_DEV_GPU_UTIL" in printed
    assert "1 GPU on 1 node, 120 samples in the hour; held by a pod: 1" in printed
    assert "memory interface active: share of cycles is missing: add DCGM_FI_PROF_DRAM" in said
    assert "the clock of Prometheus is" in said
    assert found["scrape_ms"] == 30_000
    assert found["start_ms"] == BEGIN_S * 1000


def test_memory_that_follows_from_two_metrics_is_not_missing():
    """Used and free are there of one of two GPUs: that is where it is from, and nothing to add."""
    names = b"DCGM_FI_DEV_GPU_UTIL", b"DCGM_FI_DEV_FB_USED", b"DCGM_FI_DEV_FB_FREE"

    def memory(number: int, asked: Asked) -> Told:
        told = answering(number, asked)
        if "/label/" in asked.path:
            return Told(
                body=told.body.replace(b'"DCGM_FI_DEV_GPU_UTIL"', b'"%s"' % b'","'.join(names))
            )
        asked_for = [name for name in names if name.decode() in asked.path]
        body = told.body.replace(names[0], asked_for[0]) if asked_for else told.body
        if asked_for == [names[0]] and SERIES % VALUES in body:
            other = (
                (SERIES % VALUES).replace(b"GPU-1", b"GPU-2").replace(b'"gpu":"0"', b'"gpu":"1"')
            )
            body = body.replace(SERIES % VALUES, SERIES % VALUES + b"," + other)
        return Told(body=body)

    with lying(memory) as (url, _):
        _, _, said = run("check", url, "--at", "2026-09-21T14:30")
        found = json.loads(run("check", url, "--at", "2026-09-21T14:30", "--json")[1])
    (total,) = (row for row in found["quantities"] if row["quantity"] == "total")
    assert (found["gpus"], total["gpus"]) == (2, 1)
    assert sorted(total["metrics"]) == ["DCGM_FI_DEV_FB_FREE", "DCGM_FI_DEV_FB_USED"]
    assert "memory of the GPU is missing" not in said


def test_fetch_keeps_hours_and_goes_on(tmp_path: Path):
    """The second call reads nothing again; a span that ends before it begins is refused."""
    out = str(tmp_path / "activity")
    span = ("--from", "2026-09-21T14:00", "--to", "2026-09-21T15:00", "--out", out)
    with lying(answering) as (url, _):
        first = run("fetch", url, *span)
        second = json.loads(run("fetch", url, *span, "--json")[1])
        code = run("fetch", url, "--from", "2026-09-22", "--to", "2026-09-21", "--out", out)[0]
    assert first[0] == 0
    assert " ".join(first[1].split()).endswith("1 hour read, 1 hour kept, 120 samples in all")
    assert second == {"folder": out, "hours": 1, "new_hours": 0, "samples": 120,
                      "dropped_samples": 0}  # fmt: skip
    assert code != 0


def test_minutes_after_the_books_are_not_counted(tmp_path: Path):
    """Hours are read whole; books that end at half past have the GPU of half an hour."""
    jobs = tmp_path / "jobs.csv"
    jobs.write_text(
        "job,gpus,start,end,node\na,1,2026-09-21T14:10:00Z,2026-09-21T15:00:00Z,n1\n", "utf-8"
    )
    journal = tmp_path / "j.sqlite"
    asked = ["import", "csv", str(jobs), "--from", "2026-09-21T14:00", "--to", "2026-09-21T14:30"]
    with lying(answering) as (url, _):
        done = CliRunner().invoke(app, [*asked, "--prometheus", url, "-j", str(journal)])
    assert "20 of 20 GPU-minutes belong to 1 of 1 job" in " ".join(done.stderr.split())
    refused = CliRunner().invoke(app, ["underused", str(journal)])
    assert "keeps how busy GPUs were" in str(refused.exception)
