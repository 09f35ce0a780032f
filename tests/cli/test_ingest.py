"""``tidemill ingest serve``, as a process: it takes records until it is stopped."""

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.shell import tidemill
from tests.track.played import environment, steps, whole
from tidemill import track


def test_it_takes_records_until_it_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A job that is told the address and the token sends there; SIGTERM ends it in order."""
    (tmp_path / "token").write_text("s3cret\n", encoding="utf-8")
    words = ["ingest", "serve", str(tmp_path / "spool"), "--port", "0", "--token-file"]
    server = subprocess.Popen(
        [sys.executable, "-m", "tidemill", *words, str(tmp_path / "token")], env=environment(None),
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert server.stderr is not None
    told = re.match(r"listening on (http://\S+), records go to", server.stderr.readline())
    assert told is not None
    monkeypatch.setenv("TIDEMILL_TOKEN", "s3cret")
    with track.job("train", to=told[1]) as run, run.step():
        pass
    server.send_signal(signal.SIGTERM)
    last = server.stderr.read()
    assert server.wait(20) == 0
    server.stderr.close()
    records = whole(tmp_path / "spool").records
    assert steps(records) == 1
    assert last == f"stopped; {len(records)} records taken\n"


def test_others_than_this_machine_need_a_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Exit code 2, and what to do; an empty file is no token either."""
    monkeypatch.delenv("TIDEMILL_TOKEN", raising=False)
    ran = tidemill("ingest", "serve", str(tmp_path / "spool"), "--host", "0.0.0.0")
    assert ran.code == 2
    assert "no token was given" in ran.err
    assert "TIDEMILL_TOKEN" in ran.err
    (tmp_path / "token").write_text("\n", encoding="utf-8")
    words = ("ingest", "serve", str(tmp_path / "spool"), "--token-file", str(tmp_path / "token"))
    ran = tidemill(*words)
    assert ran.code == 2
    assert "holds no token" in ran.err
