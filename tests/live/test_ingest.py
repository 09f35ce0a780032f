"""The ingest server, over real sockets: who may send, how much, and what is kept."""

import http.client
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.live.test_track import line
from tests.track.played import environment
from tidemill.live import ingest
from tidemill.live.ingest import IngestLimits, IngestServer, Spool
from tidemill.live.ingest.server import LineRate
from tidemill.live.measured.loops import launches
from tidemill.live.track import read
from tidemill.model.errors import SpecError

SMALL = IngestLimits(body_bytes=4000, lines=10, connections=3, patience_s=0.3)
Start = Callable[..., IngestServer]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts a server on a folder; it is stopped at the end."""
    stops: list[Callable[[], None]] = []

    def started(**options: Any) -> IngestServer:
        server, stop = ingest.serve(tmp_path / "spool", **options)
        stops.append(stop)
        return server

    yield started
    for stop in stops:
        stop()


def ask(
    server: IngestServer,
    body: bytes,
    path: str = "/v1/records",
    method: str = "POST",
    headers: dict[str, str] | None = None,
) -> tuple[int, dict[str, Any]]:
    """Status and answer."""
    connection = http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=10)
    try:
        connection.request(method, path, body, headers or {})
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    finally:
        connection.close()


def test_records_are_kept_once(start: Start, tmp_path: Path):
    """Sent again, in one request or the next, they are known; what is no record is told why."""
    server = start()
    status, told = ask(server, line(seq=0) + line(seq=0) + b"?\n\n" + line(seq=1))
    assert status == 200
    assert (told["accepted"], told["repeated"], told["refused_in_all"]) == (2, 1, 1)
    assert told["refused"] == [{"line": 3, "why": "it is not JSON: found `?`"}]
    assert ask(server, line(seq=1))[1]["repeated"] == 1
    readings = read(tmp_path / "spool")
    assert ([one.seq for one in readings.records], readings.repeated) == ([0, 1], 0)


def test_what_is_in_another_form_is_no_success(start: Start):
    """A webhook that sends something else must not believe that all is well."""
    server = start()
    status, told = ask(server, b'{"receiver":"team","alerts":[{"status":"firing"}]}\n')
    assert (status, told["accepted"], told["refused_in_all"]) == (422, 0, 1)
    assert ask(server, b"\n")[0] == 200
    ask(server, line(seq=0))
    assert ask(server, line(seq=0) + b"?\n")[0] == 200


def test_the_record_of_the_reference_is_taken_as_it_stands(start: Start, tmp_path: Path):
    """What the page shows for loops in other languages is accepted, and makes a launch."""
    page = (ROOT / "docs" / "reference" / "track.md").read_text(encoding="utf-8")
    (shown,) = (row for row in page.splitlines() if '"run":"a-name-of-its-own"' in row)
    server = start()
    assert ask(server, shown.encode() + b"\n")[1]["accepted"] == 1
    (launch,) = launches(read(tmp_path / "spool").records)
    assert launch.last_us - launch.first_us == 60_000_000


def test_a_server_that_is_started_again_knows_what_it_has(tmp_path: Path):
    """Also after it was killed within a line: that line was never confirmed, and is taken again."""
    spool = Spool(tmp_path)
    assert spool.take([line(seq=0), line(seq=1)]).accepted == 2
    spool.close()
    (file,) = tmp_path.glob("*.jsonl")
    with file.open("ab") as torn:
        torn.write(line(seq=2)[:-9])
    spool = Spool(tmp_path)
    assert spool.take([line(seq=1), line(seq=2)])[:2] == (1, 1)
    spool.close()
    readings = read(tmp_path)
    assert ([one.seq for one in readings.records], readings.truncated) == ([0, 1, 2], ())


def test_a_folder_has_one_writer(start: Start):
    """A second server on it says who is in the way."""
    start()
    with pytest.raises(SpecError, match="written by another server"):
        start()


def test_a_port_that_is_taken(start: Start, tmp_path: Path):
    """The message says which; the folder is free again."""
    server = start()
    with pytest.raises(SpecError, match="cannot listen on 127"):
        ingest.serve(tmp_path / "other", port=server.server_address[1])
    Spool(tmp_path / "other").close()


@pytest.mark.parametrize("host", ["0.0.0.0", "", "example.org", "10.0.0.1"])
def test_others_need_a_token(host: str, tmp_path: Path):
    """A server that can be reached from elsewhere does not start without one."""
    with pytest.raises(SpecError, match="no token was given"):
        ingest.serve(tmp_path, host=host)


def test_the_token_is_asked_for(start: Start, capfd: pytest.CaptureFixture[str]):
    """Wrong, missing or of another scheme: nothing is read or kept, and nothing is printed."""
    server = start(host="0.0.0.0", token="s3cret")
    for header in ({}, {"Authorization": "Bearer no"}, {"Authorization": "Basic s3cret"}):
        status, told = ask(server, line(), headers=header)
        assert (status, told) == (401, {"error": "the token is missing or wrong"})
    assert ask(server, line(), headers={"Authorization": "Bearer s3cret"})[0] == 200
    assert capfd.readouterr() == ("", "")


def test_what_is_too_much_is_refused(start: Start):
    """Bytes and lines of a request have bounds, and the answer names them."""
    server = start(limits=SMALL)
    assert ask(server, b"x" * 4001) == (
        413, {"error": "4,001 bytes; one request has at most 4,000"},
    )  # fmt: skip
    assert ask(server, b"\n" * 11) == (413, {"error": "11 lines; one request has at most 10"})
    assert ask(server, line(), path="/other")[0] == 404
    assert ask(server, b"", path="/v1/health", method="GET") == (200, {"ok": True})
    assert ask(server, b"", path="/", method="GET")[0] == 404


def test_a_request_says_how_long_it_is(start: Start):
    """Without a length, or with a nonsensical one, nothing is read."""
    server = start()
    for header in (b"", b"Content-Length: -5\r\n", b"Transfer-Encoding: chunked\r\n"):
        with socket.create_connection(("127.0.0.1", server.server_address[1])) as raw:
            raw.sendall(b"POST /v1/records HTTP/1.1\r\nHost: x\r\n" + header + b"\r\n")
            assert b" 411 " in raw.recv(1000)


def test_more_lines_than_the_rate_are_put_off(start: Start):
    """Ten seconds' worth at once, then what time brings; who is put off loses nothing."""
    rate = LineRate(5)
    assert [rate.take(25), rate.take(25), rate.take(25)] == [True, True, False]
    server = start(limits=IngestLimits(lines_per_s=1))
    assert ask(server, line(seq=0) * 8)[0] == 200
    assert ask(server, line(seq=1) * 8) == (
        429, {"error": "more than 1 lines a second; send them again later"},
    )  # fmt: skip


def test_who_keeps_a_connection_is_hung_up_on(start: Start):
    """Three silent clients take all places for a moment; then others are served again."""
    server = start(limits=SMALL)
    address = ("127.0.0.1", server.server_address[1])
    silent = [socket.create_connection(address) for _ in range(3)]
    for client in silent:
        client.sendall(b"POST /v1/rec")
        client.settimeout(10)
        assert client.recv(100) == b""
        client.close()
    assert ask(server, line())[0] == 200


def test_many_at_once_share_the_disk(start: Start, tmp_path: Path):
    """Eight ranks send at the same time: each is told of its own lines, and all are kept."""
    server = start()
    bodies = [b"".join(line(seq=seq, rank=rank) for seq in range(20)) for rank in range(8)]
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda body: ask(server, body)[1], bodies * 2))
    assert sum(told["accepted"] for told in answers) == 160
    assert sum(told["repeated"] for told in answers) == 160
    assert len(read(tmp_path / "spool").records) == 160


FULL = """
import resource, signal, sys
from pathlib import Path
from tests.live.test_track import line
from tidemill.live.ingest import Spool
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
spool = Spool(sys.argv[1])
spool.take([line(seq=0)])
resource.setrlimit(resource.RLIMIT_FSIZE, (300, resource.RLIM_INFINITY))
for _ in range(3):
    try:
        spool.take([line(seq=1), line(seq=2)])
    except OSError as error:
        print(error.strerror)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
print(spool.take([line(seq=1), line(seq=2)])[:2], len(list(Path(sys.argv[1]).glob("*.jsonl"))))
"""


def test_a_disk_that_is_full_keeps_nothing_by_halves(tmp_path: Path):
    """Nothing of the request is kept, nothing is confirmed, and it may be sent again."""
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(tmp_path)], capture_output=True, text=True, check=True,
        env=environment(None, PYTHONPATH=os.pathsep.join([str(Path.cwd()), "src"])),
    )  # fmt: skip
    assert done.stdout.splitlines() == [*["File too large"] * 3, "(2, 0) 1"]
    readings = read(tmp_path)
    assert [one.seq for one in readings.records] == [0, 1, 2]
    assert (readings.refused, readings.truncated) == ([], ())


def test_old_files_may_be_removed(tmp_path: Path):
    """A server that is started after it writes on; it answered 507 to all, for ever."""
    for seq in (0, 1, 2):
        spool = Spool(tmp_path)
        spool.take([line(seq=seq)])
        spool.close()
        if seq == 1:
            min(tmp_path.glob("*.jsonl")).unlink()
    assert [one.seq for one in read(tmp_path).records] == [1, 2]


def test_the_spool_is_cut_into_files(tmp_path: Path):
    """A full file is left, and the next one begun; a restart begins another."""
    for first in (0, 3):
        spool = Spool(tmp_path, part_bytes=150)
        for seq in range(first, first + 3):
            spool.take([line(seq=seq)])
        spool.close()
    assert [one.seq for one in read(tmp_path).records] == [0, 1, 2, 3, 4, 5]
    assert len(list(tmp_path.glob("*.jsonl"))) == 4
