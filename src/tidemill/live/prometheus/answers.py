"""Answers of Prometheus' HTTP API, decoded: labels as they came, samples as arrays.

A million samples are a million small JSON lists. Their text is not decoded one by one: quotes and
brackets are taken out and the rest is read as a table of numbers, about ten times as fast.
"""

from typing import NamedTuple, TypeVar

import msgspec
import numpy as np
import polars as pl
from msgspec import Raw, Struct
from numpy.typing import NDArray

from tidemill.model import decoding
from tidemill.model.errors import BackendError
from tidemill.model.tables import I64

F64 = NDArray[np.float64]
_EMPTY = Raw(b"[]")
Decoded = TypeVar("Decoded")


class _Data(Struct, rename="camel"):
    result_type: str = ""
    result: Raw = _EMPTY


class ApiAnswer(Struct):
    """What every answer has around its data."""

    status: str = ""
    data: Raw = _EMPTY
    error: str = ""
    warnings: list[str] = []


class Series(Struct):
    """One series of an answer: its labels and its samples, both still as text."""

    metric: Raw
    values: Raw = _EMPTY


class Samples(NamedTuple):
    """The samples of several series, one after the other."""

    counts: I64
    """How many of each series."""
    at_ms: I64
    values: F64


_ANSWER = msgspec.json.Decoder(ApiAnswer)
_DATA = msgspec.json.Decoder(_Data)
_MATRIX = msgspec.json.Decoder(list[Series])
_LABELS = msgspec.json.Decoder(dict[str, str])
_WORDS = msgspec.json.Decoder(list[str])
_SETS = msgspec.json.Decoder(list[dict[str, str]])
_PAIR = msgspec.json.Decoder(tuple[float, str])


def read(body: bytes) -> ApiAnswer:
    """An answer; ``ValueError`` where it is none, or cut off."""
    return _ANSWER.decode(body)


def matrix(answer: ApiAnswer, asked: str) -> list[Series]:
    """The series of a question for samples."""
    data = _decoded(_DATA, answer.data, asked)
    if data.result_type != "matrix":
        raise _strange(asked, f"`{data.result_type}` instead of a matrix")
    return _decoded(_MATRIX, data.result, asked)


def words(answer: ApiAnswer, asked: str) -> list[str]:
    """The values of a label."""
    return _decoded(_WORDS, answer.data, asked)


def label_sets(answer: ApiAnswer, asked: str) -> list[dict[str, str]]:
    """The labels of several series."""
    return _decoded(_SETS, answer.data, asked)


def scalar(answer: ApiAnswer) -> float:
    """The one number of an expression without series."""
    data = _decoded(_DATA, answer.data, "time()")
    return float(_decoded(_PAIR, data.result, "time()")[1])


def labels(series: Series) -> dict[str, str]:
    """The labels of one series."""
    return _LABELS.decode(series.metric)


def samples(series: list[Series], start_ms: int, end_ms: int) -> Samples:
    """The samples of these series within a stretch of time, each moment of a series once."""
    texts = [bytes(one.values).translate(None, b" \t\r\n") for one in series]
    counts = np.array([text.count(b"],[") + (len(text) > 4) for text in texts], np.int64)
    full = [text[2:-2] for text in texts if len(text) > 4]
    if not full:
        return Samples(np.zeros(len(series), np.int64), np.zeros(0, np.int64), np.zeros(0))
    table = b"],[".join(full).replace(b'"],[', b"\n").replace(b',"', b",").rstrip(b'"')
    try:
        frame = pl.read_csv(table, has_header=False, schema={"at": pl.Float64, "v": pl.Float64})
    except pl.exceptions.PolarsError as error:
        start = table[:60].decode(errors="replace")
        raise _strange("samples", f"values that are no numbers: {start}") from error
    if len(frame) != counts.sum():
        raise _strange("samples", f"{counts.sum():,} samples of which {len(frame):,} are numbers")
    at_ms = (frame["at"] * 1000).round().cast(pl.Int64).to_numpy()
    return _inside(counts, at_ms, frame["v"].to_numpy(), start_ms, end_ms)


def _inside(counts: I64, at_ms: I64, values: F64, start_ms: int, end_ms: int) -> Samples:
    who = np.repeat(np.arange(len(counts)), counts)
    is_kept = (at_ms >= start_ms) & (at_ms < end_ms)
    if len(who) > 1:
        is_same = who[1:] == who[:-1]
        if (is_same & (np.diff(at_ms) < 0)).any():
            raise _strange("samples", "samples that go back in time")
        is_kept[1:] &= ~(is_same & (np.diff(at_ms) == 0))
    return Samples(
        np.bincount(who[is_kept], minlength=len(counts)), at_ms[is_kept], values[is_kept]
    )


def _decoded(decoder: msgspec.json.Decoder[Decoded], data: Raw, asked: str) -> Decoded:
    try:
        return decoder.decode(data)
    except ValueError as error:
        raise _strange(asked, decoding.in_words(error, bytes(data), decoder.type)) from error


def _strange(asked: str, found: str) -> BackendError:
    return BackendError(
        f"asked for `{asked[:200]}`, found {found}",
        hint="the server does not speak Prometheus' HTTP API as documented; report it",
    )
