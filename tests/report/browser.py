"""A real browser: pages opened in headless chromium, and what it drew, decoded.

Chromium is asked for one thing at a time, with a profile of its own and a limit; a machine under
load may make it miss the limit once, so it is asked twice. PNG and PDF are read here as far as
chromium writes them.
"""

import os
import re
import shutil
import signal
import struct
import subprocess
import tempfile
import zlib
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

Pixels = NDArray[np.uint8]
Colour = tuple[int, int, int]

NAMES = ("chromium", "chromium-browser", "google-chrome")
LIMIT_S = 90
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--hide-scrollbars", "--force-device-scale-factor=1",
)  # fmt: skip
DARK = "--blink-settings=preferredColorScheme=0"


def screenshot(page: Path, width: int, height: int, *flags: str) -> Pixels:
    """What a page looks like in a window of this size: rows of pixels, red, green, blue."""
    picture = page.with_suffix(".png")
    _ask(page, picture, f"--window-size={width},{height}", f"--screenshot={picture}", *flags)
    pixels = decode_png(picture.read_bytes())
    assert pixels.shape == (height, width, 3)
    return pixels


def printed(page: Path, *flags: str) -> bytes:
    """A page on paper, as a PDF."""
    paper = page.with_suffix(".pdf")
    _ask(page, paper, "--no-pdf-header-footer", f"--print-to-pdf={paper}", *flags)
    return paper.read_bytes()


def _ask(page: Path, wanted: Path, *flags: str) -> None:
    program = next((found for name in NAMES if (found := shutil.which(name))), None)
    if program is None:
        pytest.skip("no chromium here to open the report in; hint: apt-get install chromium")
    said = ""
    for _ in range(2):
        wanted.unlink(missing_ok=True)
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
            command = [program, *FLAGS, f"--user-data-dir={profile}", *flags, page.as_uri()]
            said = _run(command)
        if wanted.exists() and wanted.stat().st_size:
            return
    pytest.fail(f"chromium wrote no {wanted.name}, twice; it said: {said[-2000:]}")


def _run(command: list[str]) -> str:
    """Run to the end, or to the limit; then stop all that it started, and only that."""
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
    ) as process:
        try:
            said, _ = process.communicate(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            said, _ = process.communicate()
    return said.decode(errors="replace")


# PNG ------------------------------------------------------------------------------------------


def decode_png(data: bytes) -> Pixels:
    """An eight-bit, not interlaced PNG in RGB or RGBA, as chromium writes them."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n", "not a PNG"
    chunks = list(_chunks(data))
    width, height, depth, kind, *_, interlace = struct.unpack(">IIBBBBB", chunks[0][1])
    assert (depth, interlace) == (8, 0)
    step = {2: 3, 6: 4}[kind]
    raw = zlib.decompress(b"".join(body for name, body in chunks if name == b"IDAT"))
    lines = np.frombuffer(raw, np.uint8).reshape(height, 1 + width * step)
    above = np.zeros(width * step, np.uint8)
    found = np.empty((height, width * step), np.uint8)
    for y in range(height):
        above = found[y] = _unfiltered(int(lines[y, 0]), lines[y, 1:], above, step)
    return found.reshape(height, width, step)[:, :, :3]


def _chunks(data: bytes):
    at = 8
    while at < len(data):
        (length,) = struct.unpack_from(">I", data, at)
        yield data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
        at += 12 + length


def _unfiltered(kind: int, line: Pixels, above: Pixels, step: int) -> Pixels:
    """Undo one of PNG's five filters; the first three by column arithmetic (modulo 256)."""
    if kind == 0:
        return line
    if kind == 1:
        return np.cumsum(line.reshape(-1, step), axis=0, dtype=np.uint8).reshape(-1)
    if kind == 2:
        return line + above
    guess = _mean if kind == 3 else _paeth
    up, out = above.tolist(), line.tolist()
    for i in range(len(out)):
        left, corner = (out[i - step], up[i - step]) if i >= step else (0, 0)
        out[i] = (out[i] + guess(left, up[i], corner)) & 255
    return np.array(out, np.uint8)


def _mean(left: int, up: int, corner: int) -> int:
    return (left + up) // 2


def _paeth(left: int, up: int, corner: int) -> int:
    guess = left + up - corner
    near = (abs(guess - left), abs(guess - up), abs(guess - corner))
    return (left, up, corner)[near.index(min(near))]


def colour(text: str) -> Colour:
    """``#117733`` as numbers."""
    return int(text[1:3], 16), int(text[3:5], 16), int(text[5:7], 16)


def is_colour(pixels: Pixels, wanted: Colour) -> NDArray[np.bool_]:
    """Where pixels have exactly this colour."""
    return (pixels == np.array(wanted, np.uint8)).all(axis=-1)


# PDF ------------------------------------------------------------------------------------------


def page_count(paper: bytes) -> int:
    """How many pages a PDF has."""
    return len(re.findall(rb"/Type\s*/Page\b", paper))


def fills(paper: bytes) -> set[Colour]:
    """The colours that anything in a PDF is filled with."""
    found: set[Colour] = set()
    for stream in re.findall(rb"stream\r?\n(.*?)\r?\nendstream", paper, re.DOTALL):
        try:
            text = zlib.decompress(stream)
        except zlib.error:  # a picture or a font, packed in another way
            continue
        for r, g, b in re.findall(rb"([\d.]+) ([\d.]+) ([\d.]+) rg\b", text):
            found.add((_byte(r), _byte(g), _byte(b)))
    return found


def _byte(part: bytes) -> int:
    return round(float(part) * 255)
