"""A way to a server that can be cut: bytes are passed on, until they are not."""

import contextlib
import socket
import threading
from typing import Self


class Forwarder:
    """Listens on a free port of loopback and passes everything on to another; a context manager."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self._open: list[socket.socket] = []
        self._is_cut = False
        self._lock = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.cut()
        self._listening.close()

    def cut(self) -> None:
        """End every connection, and take no new one."""
        with self._lock:
            self._is_cut = True
            for one in self._open:
                with contextlib.suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)
            self._open.clear()

    def mend(self) -> None:
        """Take connections again."""
        with self._lock:
            self._is_cut = False

    def _accept(self) -> None:
        while True:
            try:
                one, _ = self._listening.accept()
            except OSError:
                return
            with self._lock:
                if self._is_cut:
                    one.close()
                    continue
                try:
                    other = socket.create_connection(("127.0.0.1", self._to))
                except OSError:
                    one.close()
                    continue
                self._open += [one, other]
            threading.Thread(target=_pass_both_ways, args=(one, other), daemon=True).start()


def _pass_both_ways(one: socket.socket, other: socket.socket) -> None:
    """Until either ends; closed when nobody reads them: their numbers may be others' at once."""
    with one, other:
        back = threading.Thread(target=_pass_on, args=(other, one), daemon=True)
        back.start()
        _pass_on(one, other)
        back.join()


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while block := source.recv(1 << 16):
            target.sendall(block)
    for one in (source, target):
        with contextlib.suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)
