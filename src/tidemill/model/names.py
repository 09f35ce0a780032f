"""Which names may be given to things, and how any text is shown without doing harm.

A name is printed in tables, messages and pages. Control characters in it would move the cursor or
colour the terminal, marks of writing direction would show it in another order than it is compared
in, and a line break would forge a line of output. New names that hold one of them are refused
(``fault``, ``PATTERN``); journals written earlier may hold them, so all that is printed goes
through ``visible``.
"""

import re

LONGEST = 200
# Control characters (C0, DEL, C1), line and paragraph separators, marks of direction, characters
# without any shape (zero-width space, byte order mark, tags), and halves of surrogate pairs. The
# joiners U+200C and U+200D stay: Persian and Indic words, and many emoji, need them.
_HIDDEN = (
    "\x00-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    "\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f"
)
PATTERN = rf"\A(?!\s)[^{_HIDDEN}]+(?<!\s)\Z"
ASKED = "a name without control characters, and without spaces before or after it"

_NAME = re.compile(PATTERN)
_HARMFUL = re.compile(f"[{_HIDDEN}]")
_HARMFUL_IN_TEXT = re.compile(f"(?![\n\t])[{_HIDDEN}]")


def fault(name: str, longest: int = LONGEST) -> str:
    """What is wrong with a new name, or nothing."""
    if 0 < len(name) <= longest and name.isascii() and name.isprintable() and name == name.strip():
        return ""  # as most are
    if not name:
        return "expected a name; found nothing"
    if len(name) > longest:
        return f"expected at most {longest} characters; found {len(name):,}"
    if not _NAME.search(name):
        return f"expected {ASKED}; found `{visible(name, one_line=True)}`"
    return ""


def visible(text: str, *, one_line: bool = False) -> str:
    r"""The text with every harmful character spelt out: an escape becomes ``\x1b``.

    Line breaks and tabs stay, unless it has to be one line.
    """
    pattern = _HARMFUL if one_line else _HARMFUL_IN_TEXT
    return pattern.sub(_spelt, text)


def _spelt(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code > 0xFFFF:
        return f"\\U{code:08x}"
    return f"\\x{code:02x}" if code <= 0xFF else f"\\u{code:04x}"
