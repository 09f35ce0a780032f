"""A server that answers as it is told: what a Prometheus in trouble would say."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple

GOOD = b'{"status":"success","data":{"resultType":"scalar","result":[1790000000,"1790000000"]}}'


class Told(NamedTuple):
    """One answer."""

    status: int = 200
    body: bytes = GOOD
    length: int | None = None
    """What the header says; None: the truth."""
    headers: tuple[tuple[str, str], ...] = ()
    after_s: float = 0.0
    trickle_s: float = 0.0
    """Between two bytes of the body; 0: all at once."""


class Asked(NamedTuple):
    """One question, as it came."""

    method: str
    path: str
    authorization: str


Answering = Callable[[int, Asked], Told]
"""What to answer to which question; the first has number 0."""


@contextmanager
def lying(answering: Answering) -> Iterator[tuple[str, list[Asked]]]:
    """Serve; gives the address, and the list that questions are added to."""
    asked, wake = list[Asked](), threading.Event()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # else each answer waits 40 ms for the client's receipt

        def do_GET(self) -> None:
            size = int(self.headers.get("Content-Length", 0))
            path = f"{self.path}?{self.rfile.read(size).decode()}" if size else self.path
            asked.append(Asked(self.command, path, self.headers.get("Authorization", "")))
            told = answering(len(asked) - 1, asked[-1])
            wake.wait(told.after_s)
            self.send_response(told.status)
            length = len(told.body) if told.length is None else told.length
            self.send_header("Content-Length", str(length))
            for name, value in told.headers:
                self.send_header(name, value)
            self.end_headers()
            if told.trickle_s:
                for byte in told.body:
                    self.wfile.write(bytes((byte,)))
                    wake.wait(told.trickle_s)
            else:
                self.wfile.write(told.body)
            self.close_connection = told.length is not None

        do_POST = do_GET  # noqa: N815 - as the library calls it

        def log_message(self, *_: object) -> None:
            """Say nothing."""

        def handle(self) -> None:
            with suppress(ConnectionError):  # the client had enough
                super().handle()

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        wake.set()
        server.shutdown()
        thread.join()
        server.server_close()
