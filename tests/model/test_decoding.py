"""What decoders complain of, in our own words."""

import json
from typing import Annotated, Literal

import msgspec
import pytest
from msgspec import Meta

from tidemill.model import decoding
from tidemill.model.errors import SpecError


class Ended(msgspec.Struct, tag="ended", tag_field="is", forbid_unknown_fields=True):
    """One type of record."""

    job: Annotated[str, Meta(max_length=5)]
    outcome: Literal["finished", "failed"] | None = None
    steps: int | None = None
    pair: tuple[int, int] = (0, 0)


class Began(msgspec.Struct, tag="began", tag_field="is"):
    """Another one."""

    job: str


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"is": "ended", "job": "a", "outcome": "done"}',
         '`outcome`: expected one of finished, failed; found "done"'),
        ('{"is": "ended", "job": "a", "outcome": "finishd"}',
         '`outcome`: expected one of finished, failed; found "finishd" (did you mean `finished`?)'),
        ('{"is": "ended", "job": "a", "outcome": 3}',
         "`outcome`: expected text in quotes or nothing; found 3"),
        ('{"is": "ended", "job": "a", "steps": 1.5}',
         "`steps`: expected a whole number or nothing; found 1.5"),
        ('{"is": "ended", "job": "a", "pair": [1, null]}',
         "`pair.1`: expected a whole number; found null"),
        ('{"is": "ended", "job": "much too long"}',
         '`job`: expected text in quotes of length <= 5; found "much too long"'),
        ('{"is": "ended", "jobs": "a"}', "unknown field `jobs` (did you mean `job`?)"),
        ('{"is": "ended"}', "`job` is missing"),
        ('{"is": "slept"}', '`is`: expected one of ended, began; found "slept"'),
        ("[1]", "expected an object; found [1]"),
        ("done", "it is not JSON: found `done`"),
        ('{"is": "ended",\n"job" "a"}', 'it is not JSON: line 2 is `"job" "a"}`'),
        ('{"is": "ended"', "it is not JSON: it is cut off"),
        (" \n", "it is not JSON: it is empty"),
        ('{"is": 3, "job": nope}', 'it is not JSON: found `{"is": 3, "job": nope}`'),
        ("[" * 100_000, "it is not JSON: it is nested too deep"),
    ],
)  # fmt: skip
def test_what_was_asked_and_what_was_found_are_said(text: str, said: str):
    """The field, what it may say, and what it says; nothing of the decoder's own words."""
    with pytest.raises(decoding.FAULTS) as refused:
        msgspec.json.decode(text, type=Ended | Began)
    assert decoding.in_words(refused.value, text, Ended | Began) == said


def test_the_standard_library_is_told_alike():
    """A file that `json` cannot read is said in the same words."""
    with pytest.raises(ValueError, match="Expecting") as refused:
        json.loads('{"a": 1,\n"b": }')
    assert decoding.broken(refused.value, '{"a": 1,\n"b": }') == 'line 2 is `"b": }`'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"a = 1\nb 2\n", '`f.toml`, line 2, column 3 is not TOML: expected \'=\' after a key'),
        (b"a = [1,", "`f.toml` is not TOML: "),
        (b"\xff\xfe", "`f.toml` is not TOML: it is no text in UTF-8"),
        (b"a = " + b"[" * 50_000, "`f.toml` is not TOML: it is nested too deep"),
    ],
)  # fmt: skip
def test_what_is_no_toml_is_said_with_its_line(text: bytes, said: str):
    """And with what stands there."""
    with pytest.raises(SpecError) as refused:
        decoding.toml(text, "f.toml", "so it looks")
    assert refused.value.message.startswith(said)
    assert refused.value.hint == "so it looks"
