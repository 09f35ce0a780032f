"""The names of all jobs, and who submitted each: text in a row, found by a table of hashes.

A job is known by its name for ever, so that no second one takes it. As Python's own strings, lists
and dictionaries that took some 220 bytes for each; here it is its letters, 24 bytes beside them,
and 8 to 16 of the table, which alone is read all over (``paging``).
"""

from abc import abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from itertools import islice, pairwise
from typing import Self, overload

import numpy as np
from numpy.typing import NDArray

from tidemill.model import paging
from tidemill.model.tables import I64, grown

END, HASH, USER = range(3)  # columns of ``_rows``: where its letters end, what they come to, whose
FORGOTTEN = -1  # in a slot of the table; 0: nobody, else the number of a job and one
_LETTERS_PER_NUMBER = 8
_AT_ONCE = 4_096
_FEW = 16  # names for each of which a dictionary is asked, rather than all fresh ones are read
_UTF8 = "utf-8", "surrogatepass"  # names of before may hold anything


class Texts(Sequence[str]):  # noqa: PLW1641 - as a list, it is no key
    """Texts by number, made when they are asked for; equal to a list of the same."""

    __slots__ = ()

    @abstractmethod
    def some(self, first: int, end: int) -> list[str]:
        """Those from one number up to another."""

    @overload
    def __getitem__(self, at: int) -> str: ...
    @overload
    def __getitem__(self, at: slice) -> list[str]: ...
    def __getitem__(self, at: int | slice) -> str | list[str]:
        if isinstance(at, slice):
            first, end, step = at.indices(len(self))
            return self.some(first, max(first, end))[::step] if step > 0 else [*self][at]
        j = at + len(self) if at < 0 else at
        if not 0 <= j < len(self):
            raise IndexError(at)
        return self.some(j, j + 1)[0]

    def chunks(self) -> Iterator[list[str]]:
        """All of them, some thousand at a time."""
        for first in range(0, len(self), _AT_ONCE):
            yield self.some(first, min(first + _AT_ONCE, len(self)))
            paging.wrote(_AT_ONCE)

    def __iter__(self) -> Iterator[str]:
        for chunk in self.chunks():
            yield from chunk

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and [*self] == [*other]

    def __repr__(self) -> str:
        return f"<{len(self)} texts: {', '.join(islice(self, 3))}>"


class JobNames(Texts):
    """The names of jobs by number; ``numbers`` is the way back, ``users`` who submitted them.

    The last few thousand are plain strings: of them most is asked, and they are put away together.
    """

    __slots__ = (
        "_forgotten", "_fresh", "_fresh_number", "_fresh_users", "_letters", "_numbered", "_packed",
        "_rows", "_slots", "_user_number", "_users", "numbers", "users",
    )  # fmt: skip

    def __init__(self, names: Sequence[str] = (), users: Sequence[str] = ()) -> None:
        self._packed = 0
        """How many of them are put away."""
        self._rows: I64 = np.zeros((0, 3), np.int64)
        self._letters: I64 = np.zeros(0, np.int64)
        self._slots: NDArray[np.int32] = np.zeros(_AT_ONCE, np.int32)
        self._users: list[str] = []
        self._user_number: dict[str, int] = {}
        self._fresh: list[str] = []
        self._fresh_users: list[str] = []
        self._fresh_number: dict[str, int] = {}
        self._numbered = 0
        """How many of the fresh were put into this dictionary: those that somebody asked for."""
        self._forgotten: set[int] = set()
        """Jobs whose fresh names others may have."""
        self._show()
        for first in range(0, len(names), _AT_ONCE):
            self.extend(names[first : first + _AT_ONCE], users[first : first + _AT_ONCE])

    def _show(self) -> None:
        self.numbers: Mapping[str, int] = JobNumbers(self)
        self.users: Texts = JobUsers(self)

    def copy(self) -> Self:
        """Another that may be written."""
        made = type(self).__new__(type(self))
        made._packed, made._users = self._packed, [*self._users]
        made._user_number = {**self._user_number}
        made._rows, made._letters = self._rows.copy(), self._letters.copy()
        made._slots = self._slots.copy()
        made._fresh, made._fresh_users = [*self._fresh], [*self._fresh_users]
        made._fresh_number, made._numbered = {**self._fresh_number}, self._numbered
        made._forgotten = {*self._forgotten}
        made._show()
        return made

    def __len__(self) -> int:
        return self._packed + len(self._fresh)

    # Reading ----------------------------------------------------------------------------------

    def some(self, first: int, end: int) -> list[str]:
        """The names of jobs from one number up to another."""
        packed = self._packed
        if end > packed:
            fresh = self._fresh[max(0, first - packed) : end - packed]
            return fresh if first >= packed else [*self.some(first, packed), *fresh]
        if end - first == 1:
            paging.looked_up()
            begin = self._rows.item(first - 1, END) if first else 0
            return [str(self._bytes(begin, self._rows.item(first, END)), *_UTF8)]
        ends = self._rows[max(0, first - 1) : end, END].tolist()
        ends = ends if first else [0, *ends]
        letters, begin = self._bytes(ends[0], ends[-1]), ends[0]
        if letters.isascii():  # nearly always, and then a byte is a letter
            text = letters.decode("ascii")
            return [text[start - begin : stop - begin] for start, stop in pairwise(ends)]
        return [
            str(letters[start - begin : stop - begin], *_UTF8) for start, stop in pairwise(ends)
        ]

    def put_away(self) -> Iterator[tuple[NDArray[np.uint8], I64]]:
        """The letters of all names but the fresh ones, with how many each has; some at a time."""
        for first in range(0, self._packed, _AT_ONCE):
            end = min(first + _AT_ONCE, self._packed)
            ends = self._rows[first:end, END]
            begin = self._rows.item(first - 1, END) if first else 0
            letters = self._letters.view(np.uint8)[begin : ends[-1]]
            yield letters, np.diff(ends, prepend=begin)
            paging.wrote(_AT_ONCE)

    @property
    def fresh(self) -> list[str]:
        """The names after those."""
        return self._fresh

    def some_users(self, first: int, end: int) -> list[str]:
        """Who submitted jobs from one number up to another; "": nobody said."""
        packed = self._packed
        if end > packed:
            fresh = self._fresh_users[max(0, first - packed) : end - packed]
            return fresh if first >= packed else [*self.some_users(first, packed), *fresh]
        return [self._users[u] for u in self._rows[first:end, USER].tolist()]

    def by_user(self) -> tuple[list[str], I64]:
        """The users there are, in the order in which they came, and which of them each job has."""
        number = dict(self._user_number)
        fresh = [number.setdefault(user, len(number)) for user in self._fresh_users]
        packed = paging.column(self._rows[:, USER], self._packed)
        return [*number], np.append(packed, np.array(fresh, np.int64))

    def number(self, name: str) -> int:
        """The number of the job of this name; -1: there is none."""
        found = self._fresh_numbers().get(name)
        if found is not None or not self._packed:
            return -1 if found is None else found
        slot = self._slot(name)
        return self._slots.item(slot) - 1 if slot >= 0 else -1

    def has_any(self, names: Set[str]) -> bool:
        """Whether a job has one of these names."""
        if self._has_fresh(names):
            return True
        told, mask, step = _hashes(names), len(self._slots) - 1, 0
        at = told & mask
        while len(told) and self._packed:
            found = self._slots[at]
            met = found.nonzero()[0]
            told, at, found = told[met], at[met], found[met]
            if ((self._rows[found - 1, HASH] == told) & (found > 0)).any():  # nearly always the one
                return any(self.number(name) >= 0 for name in names)
            step += 1
            at = (at + step) & mask
        return False

    def _has_fresh(self, names: Set[str]) -> bool:
        """Whether a fresh name is one of these."""
        if self._forgotten or _FEW * len(names) < len(self._fresh):
            return not self._fresh_numbers().keys().isdisjoint(names)
        return not names.isdisjoint(self._fresh)

    def _fresh_numbers(self) -> dict[str, int]:
        """The numbers of the fresh names."""
        if self._numbered < len(self._fresh):
            some = self._fresh[self._numbered :]
            numbers = range(self._packed + self._numbered, len(self))
            self._fresh_number.update(zip(some, numbers, strict=True))
            self._numbered = len(self._fresh)
        return self._fresh_number

    def hold(self, letter: str) -> bool:
        """Whether any name has this letter, one of ASCII, in it."""
        if any(letter in name for name in self._fresh):
            return True
        ends = self._rows[: self._packed : _AT_ONCE, END].tolist()
        ends += self._rows[max(0, self._packed - 1) : self._packed, END].tolist()
        some = (self._bytes(start, stop) for start, stop in pairwise([0, *ends]))
        return any(letter.encode() in letters for letters in some)

    def _slot(self, name: str) -> int:
        """Where the table has the job of this name; -1: nowhere."""
        told, slots, mask, step = hash(name), self._slots, len(self._slots) - 1, 0
        at = told & mask
        while (found := slots.item(at)) != 0:
            if (
                found > 0
                and self._rows.item(found - 1, HASH) == told
                and self.some(found - 1, found)[0] == name
            ):
                return at
            step += 1
            at = (at + step) & mask
        return -1

    def _bytes(self, first: int, end: int) -> bytes:
        return self._letters.view(np.uint8)[first:end].tobytes()

    # Writing ----------------------------------------------------------------------------------

    def append(self, name: str, user: str) -> None:
        """The next job has this name, which no other has, and was submitted by that user."""
        self.extend((name,), (user,))

    def extend(self, names: Sequence[str], users: Iterable[str]) -> None:
        """The next jobs have these names, which no others have."""
        self._fresh += names
        self._fresh_users += users
        if len(self._fresh) >= _AT_ONCE:
            self._put_away()

    def forget(self, name: str) -> None:
        """Let another job have this name, if one has it; its own name stays."""
        fresh = self._fresh_numbers().pop(name, None)
        if fresh is not None:
            self._forgotten.add(fresh)
        elif self._packed:
            found = self._slot(name)
            if found >= 0:
                self._slots[found] = FORGOTTEN

    def _put_away(self) -> None:
        """Write the fresh names as letters, and into the table."""
        first, end, number = self._packed, len(self), self._user_number
        letters, sizes = "".join(self._fresh).encode(*_UTF8), [*map(len, self._fresh)]
        if not letters.isascii():
            sizes = [len(name.encode(*_UTF8)) for name in self._fresh]
        begin = self._rows.item(first - 1, END) if first else 0
        self._make_room(end, begin + len(letters))
        written = self._letters.view(np.uint8)[begin : begin + len(letters)]
        written[:] = np.frombuffer(letters, np.uint8)
        rows = self._rows[first:end]
        rows[:, END] = begin + np.cumsum(sizes)
        rows[:, HASH] = _hashes(self._fresh)
        for user in dict.fromkeys(self._fresh_users):
            number.setdefault(user, len(number))
        rows[:, USER] = [*map(number.__getitem__, self._fresh_users)]
        if len(number) > len(self._users):
            self._users = [*number]
        self._packed = end
        known = np.arange(first, end, dtype=np.int32)
        if self._forgotten:
            known = np.setdiff1d(known, np.array([*self._forgotten], np.int32))
        self._put(known + 1)
        self._fresh, self._fresh_users, self._fresh_number = [], [], {}
        self._numbered, self._forgotten = 0, set()

    def _make_room(self, jobs: int, letters: int) -> None:
        if jobs > len(self._rows):
            self._rows = grown(self._rows, jobs)
        if letters > len(self._letters) * _LETTERS_PER_NUMBER:
            self._letters = grown(self._letters, letters // _LETTERS_PER_NUMBER + 1)
        if 2 * jobs > len(self._slots):
            known = np.sort(self._slots[self._slots > 0])  # their rows are read one after another
            self._slots = np.zeros(1 << (2 * jobs).bit_length(), np.int32)
            for first in range(0, len(known), _AT_ONCE):
                self._put(known[first : first + _AT_ONCE])
                paging.wrote(_AT_ONCE)

    def _put(self, marks: NDArray[np.int32]) -> None:
        """Write jobs into the table, each into the first slot on its way that is free."""
        slots, mask, step = self._slots, len(self._slots) - 1, 0
        at = self._rows[marks - 1, HASH] & mask
        while len(at):
            is_free = slots[at] == 0
            slots[at[is_free]] = marks[is_free]  # of several the last; the others go on
            is_left = slots[at] != marks
            step += 1
            at, marks = (at[is_left] + step) & mask, marks[is_left]


class JobNumbers(Mapping[str, int]):
    """The numbers of jobs by their names."""

    __slots__ = ("_names",)

    def __init__(self, names: JobNames) -> None:
        self._names = names

    def __getitem__(self, name: str) -> int:
        found = self._names.number(name)
        if found < 0:
            raise KeyError(name)
        return found

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._names.number(name) >= 0

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


class JobUsers(Texts):
    """Who submitted each job; "": nobody said."""

    __slots__ = ("_names",)

    def __init__(self, names: JobNames) -> None:
        self._names = names

    def __len__(self) -> int:
        return len(self._names)

    def some(self, first: int, end: int) -> list[str]:
        """Those from one number up to another."""
        return self._names.some_users(first, end)


def _hashes(names: Collection[str]) -> I64:
    """What Python makes of each text; not the same in another process."""
    return np.fromiter(map(hash, names), np.int64, len(names))
