"""``schedule kubernetes --lease``: what is refused before a replica stands by."""

import time
from pathlib import Path

import pytest

from tests.cli.shell import process

NOBODY = "postgresql://me@127.0.0.1:1/db?journal=x"
KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: one
contexts: [{name: one, context: {cluster: one, user: one}}]
clusters: [{name: one, cluster: {server: "http://127.0.0.1:1"}}]
users: [{name: one, user: {token: t}}]
"""


def test_a_server_of_the_journal_that_never_answered_is_not_waited_for(tmp_path: Path):
    """Its address may be mistyped; only one that was there and went away may come back."""
    pytest.importorskip("psycopg")
    (tmp_path / "config").write_text(KUBECONFIG)
    began_s = time.monotonic()
    ran = process(
        "schedule", "kubernetes", "--lease", "tidemill/scheduler", "-j", NOBODY,
        "--kubeconfig", "config", cwd=tmp_path,
    )  # fmt: skip
    assert ran.code == 3
    assert f"journal `{NOBODY}` cannot be used now" in ran.err
    assert "standing by" not in ran.err
    assert time.monotonic() - began_s < 30
