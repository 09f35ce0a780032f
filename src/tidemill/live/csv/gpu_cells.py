"""Numbers of GPUs as tables say them: `8`, `8xA100`, `V100:4`, `gres/gpu:a100=8`, `4 GPUs`.

Beside the number a cell may say their type. A column is full of few texts, so each is read once.
"""

import re
from collections.abc import Mapping

import polars as pl

from tidemill.live.csv import times
from tidemill.live.csv.cells import CellFaults
from tidemill.live.prices import labels
from tidemill.live.slurm import amounts
from tidemill.units.catalogue.book import Catalogue

_TYPE = r"[A-Za-z][\w .+/-]*?"
_TIMES = r"\s*(?:[xX×*]|\s)\s*"
_FIRST = re.compile(rf"(\d+){_TIMES}({_TYPE})")
_LAST = re.compile(rf"({_TYPE})(?:\s*[x×*:=]\s*|\s+\()(\d+)\)?")
_NO_TYPE = frozenset(
    {"", "GPU", "GPUS", "GPU(S)", "NVIDIA.COM/GPU", "AMD.COM/GPU", "GRES/GPU", "X"}
)
_PARTS = re.compile(r"(?:^|,)(?:gres[/:])?gpu(?::[^,=:]+)?[=:]\d")
_SAYS_IT = re.compile(r"gpu_(\d+)x_(\w+)")
"""Types of machines that are called by what they have, as Lambda's: `gpu_8x_h100_sxm5`."""
_EACH = "GPUs of each node or of all nodes together"
Counted = tuple[int | None, str | None]


def counts(
    texts: pl.Series, column: str, nodes: pl.Series | None, faults: CellFaults
) -> tuple[pl.Series, pl.Series]:
    """How many GPUs each row says, and of which type; what is a number is left as it is.

    ``nodes``: on how many nodes; GRES of several may be of each of them, so they are refused.
    """
    given = times.blank(texts)
    is_text = (given.is_not_null() & times.number_of(given).is_null()).fill_null(value=False)
    if not is_text.any():
        return given, times.nothing(len(given))
    read = {text: _read(text) for text in given.filter(is_text).unique().to_list()}
    if any("gres/gpu" in text for text in read):  # GPUs are tracked, so who names none has none
        read |= {text: ("0", None) for text in read if _is_tres_without(text)}
    number, kind = (
        given.replace_strict(
            {text: found[i] for text, found in read.items()}, default=None, return_dtype=pl.String
        )
        for i in (0, 1)
    )
    if nodes is not None:
        is_each = given.is_in([text for text in read if _is_gres(text)]) & (nodes > 1)
        hint = "name a column with the number of all GPUs of a job: --map gpus=COLUMN"
        faults.check(texts, is_each, column, f"which may be {_EACH}", hint)
    return number.zip_with(is_text & number.is_not_null(), given), kind


def of_boxes(kinds: pl.Series, boxes: pl.Series, column: str, faults: CellFaults) -> pl.DataFrame:
    """How many GPUs, and of which type, so many machines of a type have, by the catalogue."""
    book, given = Catalogue(), times.blank(kinds)
    known: Mapping[str, Counted] = {
        text: found
        for text in given.drop_nulls().unique().to_list()
        if (found := _of_box(book, text)) is not None
    }
    is_unknown = given.is_not_null() & ~given.is_in([*known])
    hint = "add a column with the number of GPUs of a job, and name it: --map gpus=COLUMN"
    faults.check(kinds, is_unknown, column, "a type of machines that is not in the catalogue", hint)
    each, kind = (
        given.replace_strict({text: found[i] for text, found in known.items()}, default=None,
                             return_dtype=dtype) for i, dtype in ((0, pl.Int64), (1, pl.String))
    )  # fmt: skip
    return pl.DataFrame({"gpus": each * boxes, "gpu_type": kind})


def _of_box(book: Catalogue, name: str) -> Counted | None:
    """What a type of machines has; None: neither the catalogue nor its name says it."""
    if said := _SAYS_IT.fullmatch(name):
        return int(said[1]), said[2].partition("_")[0].upper()
    found = book.boxes.get(labels.plain(name).removeprefix("ml."))  # `ml.p5.48xlarge` of SageMaker
    return None if found is None else (found.count, book.part_of(found).names[0].upper())


def _is_tres_without(text: str) -> bool:
    return re.search(r"(?:^|,)(?:cpu|node)=\d", text) is not None and "gres/gpu" not in text


def _is_gres(text: str) -> bool:
    return bool(re.match(r"(?:gres[:/])?gpu:", text)) and "=" not in text


def _read(text: str) -> tuple[str | None, str | None]:
    """The number, as text, and the type that a cell says."""
    if _PARTS.search(text):
        return _of_slurm(text)
    first, last = _FIRST.fullmatch(text), _LAST.fullmatch(text)
    number, kind = first.groups() if first else (last[2], last[1]) if last else (None, "")
    named = kind.strip(" ,;")
    return number, None if number is None or named.upper() in _NO_TYPE else named


def _of_slurm(text: str) -> tuple[str | None, str | None]:
    try:
        found = amounts.tres_gpus(text) if "=" in text else amounts.gres_gpus(text)
    except ValueError:
        return None, None
    return None if found.number is None else str(found.number), found.type
