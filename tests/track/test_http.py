"""Records over HTTP: a real server, a dead one, one that hangs, one that refuses."""

import json
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Event, Thread
from typing import Any, cast

import pytest

from tests.track.played import kinds, steps, whole
from tidemill import track
from tidemill.live import ingest
from tidemill.live.track import read
from tidemill.live.track.records import LostRecord
from tidemill.track.http import PATIENCE_S


@pytest.fixture
def closed_port() -> Iterator[int]:
    """A port that nobody listens on yet, and nobody else is given."""
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


def test_records_reach_the_server(tmp_path: Path):
    """What a loop tells is in the server's folder when the run has ended."""
    server, stop = ingest.serve(tmp_path)
    try:
        with track.job("train", to=server.url) as run:
            for _ in range(3):
                with run.step(tokens=2):
                    pass
            assert run.flush()
            assert run.trouble == ""
    finally:
        stop()
    records = whole(tmp_path).records
    assert kinds(records) == ["job_began", "job_ended"]
    assert steps(records) == 3


def test_the_token_is_sent_and_never_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    """With the token all is taken; with another nothing is, the reason is told, the token not."""
    monkeypatch.setenv("TIDEMILL_TRACK_SPOOL", "")
    server, stop = ingest.serve(tmp_path, token="s3cret")
    try:
        monkeypatch.setenv("TIDEMILL_TOKEN", "wr0ng")
        with track.job("spy", to=server.url) as run:
            assert run.flush()
            assert run.trouble == "status 401: the token is missing or wrong"
        monkeypatch.setenv("TIDEMILL_TOKEN", "s3cret")
        with track.job("train", to=server.url):
            pass
    finally:
        stop()
    assert {one.job for one in whole(tmp_path).records} == {"train"}
    assert "s3cret" not in caplog.text
    assert "wr0ng" not in caplog.text


def test_a_dead_server_is_survived(closed_port: int):
    """The loop goes on, and so does its end."""
    begun_s = time.monotonic()
    with track.job("train", to=f"http://127.0.0.1:{closed_port}") as run:
        for _ in range(100):
            with run.step():
                pass
        assert run.flush()
        assert "refused" in run.trouble
    assert time.monotonic() - begun_s < PATIENCE_S


def test_a_server_that_hangs_is_survived():
    """It takes the connection and never answers: the end waits two seconds, the loop not at all."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        run = track.job("train", to=f"http://127.0.0.1:{silent.getsockname()[1]}")
        begun_s = time.monotonic()
        for _ in range(100):
            with run.step():
                pass
        assert time.monotonic() - begun_s < PATIENCE_S
        begun_s = time.monotonic()
        run.close()
        assert time.monotonic() - begun_s < PATIENCE_S


def test_a_server_that_comes_back_gets_everything(tmp_path: Path, closed_port: int):
    """What could not be sent is kept, in order, and sent when the server is there."""
    with track.job("train", to=f"http://127.0.0.1:{closed_port}") as run:
        with run.step():
            pass
        run.flush()
        assert run.trouble
        _, stop = ingest.serve(tmp_path, port=closed_port)
        try:
            with run.step():
                pass
            run.close("finished")
        finally:
            stop()
    assert steps(whole(tmp_path).records) == 2


class Names:
    """A name server: where the one name is, or nothing at all while it hangs."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked, self.is_back, self.address = 0, Event(), "127.0.0.1"
        self._true = socket.getaddrinfo
        monkeypatch.setattr(socket, "getaddrinfo", self._answer)

    def _answer(self, host: str, port: int, **more: Any) -> Any:
        if host != "observer":
            return self._true(host, port, **more)
        if more.get("flags") == socket.AI_NUMERICHOST:
            raise socket.gaierror(socket.EAI_NONAME, "a name is no number")
        self.asked += 1
        self.is_back.wait(30)
        return self._true(self.address, port, **more)


def test_a_name_that_nobody_answers_for_is_survived(
    monkeypatch: pytest.MonkeyPatch, closed_port: int, waiting: Path
):
    """The end of the run waits two seconds; records are on disk."""
    names = Names(monkeypatch)
    run = track.job("train", to=f"http://observer:{closed_port}")
    with run.step():
        pass
    begun_s = time.monotonic()
    run.close()
    assert time.monotonic() - begun_s < PATIENCE_S
    names.is_back.set()
    (kept,) = waiting.rglob("*.jsonl")
    assert steps(whole(kept).records) == 1


def test_a_name_is_asked_for_again_where_its_server_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Once while all is well; a server that moved is found at its new address."""
    names = Names(monkeypatch)
    names.is_back.set()
    server, stop = ingest.serve(tmp_path / "first")
    port = server.server_address[1]
    with track.job("train", to=f"http://observer:{port}") as run:
        for _ in range(3):
            assert run.flush()
        assert (run.trouble, names.asked) == ("", 1)
        stop()
        names.address = "127.0.0.2"
        _, stop = ingest.serve(tmp_path / "second", host=names.address, port=port)
        run.flush()
        assert run.trouble
        run.flush()
        assert (run.trouble, names.asked) == ("", 2)
    stop()
    assert kinds(whole(tmp_path / "first").records) == ["job_began"]
    assert kinds(read(tmp_path / "second").records) == ["job_ended"]


class Picky(BaseHTTPRequestHandler):
    """Refuses some lines of what it is sent first, and keeps the rest."""

    kept: list[bytes] = []  # noqa: RUF012 - of the class: a handler is made for each request
    refuses: Callable[[int], Sequence[int]]
    """The numbers of lines of so many that it refuses, from 0."""
    is_first = True

    def do_POST(self) -> None:
        """Answer as our server does."""
        lines = self.rfile.read(int(self.headers["Content-Length"])).splitlines(keepends=True)
        numbers = type(self).refuses(len(lines)) if type(self).is_first else ()
        type(self).is_first = False
        self.kept += [line for number, line in enumerate(lines) if number not in numbers]
        refused = [{"line": number + 1, "why": "not liked"} for number in numbers]
        body = json.dumps({"refused_in_all": len(refused), "refused": refused}).encode()
        self.send_response(422 if len(refused) == len(lines) else 200)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.mark.parametrize("refuses", [lambda _: [0], range], ids=["one", "all"])
def test_what_a_server_refuses_is_told(tmp_path: Path, refuses: Callable[[int], Sequence[int]]):
    """Records that the server will never take are counted, and a later record says so."""
    handler = cast(
        "type[Picky]", type("Handler", (Picky,), {"kept": [], "refuses": staticmethod(refuses)})
    )
    server = HTTPServer(("127.0.0.1", 0), handler)
    thread = Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    with track.job("train", to=f"http://127.0.0.1:{server.server_port}") as run:
        for _ in range(3):
            run.step()
        assert run.flush()
    server.shutdown()
    thread.join()
    server.server_close()
    (tmp_path / "kept.jsonl").write_bytes(b"".join(handler.kept))
    lost = [one for one in read(tmp_path).records if isinstance(one, LostRecord)]
    assert sum(one.records for one in lost) >= 1
    assert "not liked" in lost[0].why
