"""Records to a server: batches of lines in one request each, with the token that it asks for."""

import json
from collections.abc import Sequence
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any

from tidemill.track.outlets import first_lines

PATH = "/v1/records"
TYPE = "application/x-ndjson"
MOST_LINES = 1000
MOST_BYTES = 512 << 10
"""Of one request: half of what the server takes."""
ANSWER_BYTES = 256 << 10
"""Of an answer that is read: what the server says about a thousand refused lines."""
PATIENCE_S = 5.0


class HttpOutlet:
    """Posts lines to an ingest server."""

    longest_pause_s = 60.0

    def __init__(self, host: str, port: int | None, is_secure: bool, token: str) -> None:
        self._connect = HTTPSConnection if is_secure else HTTPConnection
        self._host, self._port = host, port
        self._headers = {"Content-Type": TYPE} | (
            {"Authorization": f"Bearer {token}"} if token else {}
        )
        self.lost = 0
        self.lost_why = ""

    def send(self, lines: Sequence[bytes], within_s: float) -> int:
        """Post the first lines; returns how many the server has dealt with."""
        batch = first_lines(lines, MOST_LINES, MOST_BYTES)
        try:
            status, answer = self._post(b"".join(batch), min(within_s, PATIENCE_S))
        except HTTPException as error:
            raise OSError(f"no HTTP answer: {type(error).__name__}") from error
        if status != 200:
            raise OSError(f"status {status}: {answer.get('error', 'no reason given')}")
        refused, named = answer.get("refused_in_all"), answer.get("refused")
        if isinstance(refused, int) and refused > 0 and isinstance(named, list) and named:
            self.lost += refused
            self.lost_why = f"the server refused them: {named[0]}"
        return len(batch)

    def close(self) -> None:
        """Each request had its own connection."""

    def _post(self, body: bytes, within_s: float) -> tuple[int, dict[str, Any]]:
        connection = self._connect(self._host, self._port, timeout=within_s)
        try:
            connection.request("POST", PATH, body, self._headers)
            response = connection.getresponse()
            return response.status, _object(response.read(ANSWER_BYTES))
        finally:
            connection.close()


def _object(text: bytes) -> dict[str, Any]:
    try:
        answer = json.loads(text)
    except ValueError:
        return {}
    return answer if isinstance(answer, dict) else {}
