"""Single values of Slurm's JSON, whose form changed over the versions.

22.05 prints plain numbers, texts and `null`; since 23.02 a number may be `{"set": true, "infinite":
false, "number": 5}` and a state a list. Each function takes both forms and raises ``ValueError``
for anything else.
"""

from typing import Any

NO_VALUES = frozenset(
    {-1, -2, 0xFFFF, 0xFFFE, 0xFFFFFFFF, 0xFFFFFFFE, (1 << 64) - 1, (1 << 64) - 2}
)
"""What Slurm's integers of 16, 32 and 64 bits hold for *infinite* and *not set*; also signed."""
NO_TEXT = frozenset({"", "(null)", "None assigned", "N/A", "n/a"})


def part(record: Any, *path: str) -> Any:  # noqa: ANN401 - decoded JSON
    """What stands under these keys; None where one of them is missing."""
    for key in path:
        if not isinstance(record, dict):
            return None
        record = record.get(key)
    return record


def number(value: Any) -> int | None:  # noqa: ANN401 - decoded JSON
    """A whole number; None: not set, infinite or missing."""
    if isinstance(value, dict):
        if not value.get("set") or value.get("infinite"):
            return None
        value = value.get("number")
    if value is None or value in NO_VALUES:
        return None
    if isinstance(value, str) and value.isascii() and value.isdigit():
        return int(value)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"`{str(value)[:40]}` is no whole number")  # noqa: TRY004 - of the file
    return value


def positive(value: Any) -> int | None:  # noqa: ANN401 - decoded JSON
    """A number that Slurm prints as 0 where there is none, such as the id of an array."""
    return number(value) or None


def seconds_ms(value: Any) -> int | None:  # noqa: ANN401 - decoded JSON
    """Seconds, in milliseconds; None: nobody says."""
    told = number(value)
    return None if told is None else 1000 * told


def moment(value: Any) -> int | None:  # noqa: ANN401 - decoded JSON
    """A point in time in ms, from seconds since 1970; 0 is none."""
    seconds = positive(value)
    return None if seconds is None else seconds * 1000


def limit_ms(value: Any) -> int | None:  # noqa: ANN401 - decoded JSON
    """A time limit in ms, from minutes; None: there is none, or it is not told."""
    found = number(value)
    return None if found is None else found * 60_000


def text(value: Any) -> str | None:  # noqa: ANN401 - decoded JSON
    """A text that says something."""
    if value is None or value in NO_TEXT:
        return None
    if not isinstance(value, str):
        raise ValueError(f"`{str(value)[:40]}` is no text")  # noqa: TRY004 - of the file
    return value


def named(value: Any) -> str:  # noqa: ANN401 - decoded JSON
    """The name of what cannot be without one."""
    found = text(value)
    if found is None:
        raise ValueError("it has no name")
    return found


def text_alone(value: Any) -> str | None:  # noqa: ANN401 - decoded JSON
    """A text; anything else says nothing. For the name of a job's reservation 22.05 prints a
    number: 0 where there is none, else where in memory it stood.
    """
    return text(value) if isinstance(value, str) else None


def words(value: Any) -> list[str]:  # noqa: ANN401 - decoded JSON
    """One word or a list of them."""
    found = value if isinstance(value, list) else [value]
    return [str(word) for word in found if word not in {None, ""}]


def joined(value: Any, by: str = ",") -> str | None:  # noqa: ANN401 - decoded JSON
    """Words in one text."""
    return by.join(words(value)) or None


def tres(value: Any) -> str | None:  # noqa: ANN401 - decoded JSON
    """TRES from a list, as the text forms print them; memory is counted in MiB."""
    if value is None or isinstance(value, str):
        return text(value)
    entries = []
    for entry in value:
        kind, name, found = entry.get("type"), entry.get("name"), number(entry.get("count"))
        if found is not None:
            unit = "M" if kind == "mem" else ""
            entries.append(f"{kind}{f'/{name}' if name else ''}={found}{unit}")
    return ",".join(entries) or None
