"""Names that may be given, and text that is shown without doing harm."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemill.model import names

HARMFUL = [
    "\x1b[31m",
    "\x00",
    "\x7f",
    "\x9b",
    "\u202e",
    "\u2066",
    "\u200f",
    "\u2028",
    "\ufeff",
    "\r",
]


@pytest.mark.parametrize("part", [*HARMFUL, "\n", "\t"])
def test_a_name_with_a_control_character_is_refused(part: str):
    """Escapes, NUL, marks of direction and line breaks are refused anywhere in a name."""
    assert all(names.fault(name) for name in (part, f"a{part}", f"{part}a", f"a{part}b"))


@pytest.mark.parametrize("name", ["", " ", "a ", " a", "\u00a0a", "x" * 201])
def test_an_empty_padded_or_endless_name_is_refused(name: str):
    """A name has something in it, no spaces around it, and an end."""
    assert names.fault(name)


@pytest.mark.parametrize("name", ["a", "[/k]", "a b", "été", "机器", "می‌خواهم", "👩‍🔬", "x" * 200])
def test_names_of_all_languages_are_taken(name: str):
    """Brackets, spaces inside, accents, other scripts and joined emoji are names like others."""
    assert names.fault(name) == ""
    assert names.visible(name) == name


@given(st.text())
def test_what_is_shown_holds_no_control_character(text: str):
    """Whatever the text, no control character but line breaks and tabs is left to print."""
    shown = names.visible(text)
    kinds = {unicodedata.category(c) for c in shown if c not in "\n\t"}
    assert not kinds & {"Cc", "Cs", "Zl", "Zp"}
    assert "\n" not in names.visible(text, one_line=True)
