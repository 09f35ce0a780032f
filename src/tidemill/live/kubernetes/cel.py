"""Selectors of devices (DRA): the part of CEL that people write in them, read exactly.

An expression is read once into a tree and asked of each device. What is not understood is refused
by name when it is read (``UnknownExpression``), never guessed. A device that lacks what is asked
for does not match; as in CEL, `&&` and `||` need only the side that decides.

Understood: `device.driver`, `device.attributes["domain"].name`, `device.capacity["domain"].name`,
strings, whole numbers, `true`, `false`, lists, `quantity("…")`, `semver("…")`; `== != < <= > >= in
&& || !` and brackets; `.compareTo`, `.isGreaterThan`, `.isLessThan`, `.startsWith`, `.endsWith`,
`.contains`, `.lowerAscii`, `.upperAscii`; `has(…)` and `"name" in device.attributes["domain"]`;
`cel.bind(name, …, …)`; `.matches("…")` of patterns that mean the same everywhere, and are soon
tried (``_pattern``).
"""

import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import cache
from typing import Any, NamedTuple

LONGEST = 10 << 10
"""Of an expression, by the API's own rule."""
DEEPEST = 64

Value = Any
"""What an expression comes to: a bool, a whole number, a string, a quantity, a version, a list or
the attributes of one domain."""


class UnknownExpression(ValueError):  # noqa: N818 - it says what it is
    """An expression that is not understood here; the message names what of it."""


class _Lacking(Exception):  # noqa: N818 - never leaves this module
    """What is asked for is not there, or cannot be compared: an error in CEL."""


class ExactAmount(NamedTuple):
    """An amount, exactly."""

    amount: Fraction


class Version(NamedTuple):
    """A semantic version; what comes before a release is less than it."""

    numbers: tuple[int, int, int]
    is_release: bool
    before: tuple[tuple[bool, int, str], ...]


class DeviceFacts(NamedTuple):
    """What selectors can ask of a device."""

    driver: str
    attributes: Mapping[str, Mapping[str, Value]]
    """By domain and name."""
    capacity: Mapping[str, Mapping[str, ExactAmount]]


class Selector(NamedTuple):
    """An expression that was understood."""

    text: str
    ask: Callable[[DeviceFacts], Value]

    def holds(self, device: DeviceFacts) -> bool:
        """Whether a device matches."""
        try:
            return self.ask(device) is True
        except _Lacking:
            return False


@cache
def selector(text: str) -> Selector:
    """Read an expression; ``UnknownExpression`` if it has something that is not understood."""
    if len(text) > LONGEST:
        raise UnknownExpression("an expression of more than 10 KiB")
    reader = _Reader(text)
    made = reader.either()
    if reader.at < len(reader.tokens):
        raise UnknownExpression(f"`{reader.tokens[reader.at][1]}` in `{_shown(text)}`")
    return Selector(text, made)


_TOKEN = re.compile(
    r"""\s*(?:
    (?P<number>\d+(?![\w.]))
  | (?P<string>"(?:[^"\\\n]|\\["'\\nrt])*"|'(?:[^'\\\n]|\\["'\\nrt])*')
  | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
  | (?P<sign>&&|\|\||==|!=|<=|>=|[<>!()\[\].,-])
    )""",
    re.VERBOSE,
)
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}
_COMPARED: Mapping[str, Callable[[Any, Any], bool]] = {
    "<": lambda a, b: bool(a < b), "<=": lambda a, b: bool(a <= b),
    ">": lambda a, b: bool(a > b), ">=": lambda a, b: bool(a >= b),
}  # fmt: skip
_Ask = Callable[[DeviceFacts], Value]


class _Reader:
    """Reads an expression from left to right, the loosest operator first."""

    def __init__(self, text: str) -> None:
        self.text, self.tokens, self.at, self._depth = text, _tokens(text), 0, 0
        self._bound = dict[str, _Ask]()

    def either(self) -> _Ask:
        self._depth += 1
        if self._depth > DEEPEST:
            raise UnknownExpression("brackets in brackets, too deep")
        found = self._both()
        while self._take("||"):
            found = _either(found, self._both())
        self._depth -= 1
        return found

    def _both(self) -> _Ask:
        found = self._relation()
        while self._take("&&"):
            found = _both(found, self._relation())
        return found

    def _relation(self) -> _Ask:
        left = self._unary()
        for sign in ("==", "!=", "<=", ">=", "<", ">", "in"):
            if self._take(sign):
                return _related(sign, left, self._unary())
        return left

    def _unary(self) -> _Ask:
        if self._take("!"):
            inner = self._unary()
            return lambda device: not _as(bool, inner(device))
        if self._take("-"):
            number = self._unary()
            return lambda device: -_as(int, number(device))
        return self._member(self._primary())

    def _primary(self) -> _Ask:
        kind, told = self._next()
        if kind == "number":
            value = int(told)
            return lambda _: value
        if kind == "string":
            text = _unquoted(told)
            return lambda _: text
        if told == "(":
            found = self.either()
            self._need(")")
            return found
        if told == "[":
            return self._list()
        if told in ("true", "false"):
            return lambda _: told == "true"
        if kind == "name" and told in ("device", "cel", *self._bound):
            return self._named(told)
        if told in ("quantity", "semver") and self._take("("):
            return self._literal(told)
        if told == "has" and self._take("("):
            found = self._unary()
            self._need(")")
            return lambda device: _is_there(found, device)
        raise UnknownExpression(f"`{told}` in `{_shown(self.text)}`")

    def _named(self, name: str) -> _Ask:
        """What a name stands for."""
        if name == "device":
            return self._device()
        return self._bind() if name == "cel" else self._bound[name]

    def _list(self) -> _Ask:
        items = self._until("]")
        return lambda device: [item(device) for item in items]

    def _until(self, end: str) -> list[_Ask]:
        """Expressions with commas between them, up to a sign."""
        items = list[_Ask]()
        while not self._take(end):
            items.append(self.either())
            if not self._take(","):
                self._need(end)
                break
        return items

    def _literal(self, kind: str) -> _Ask:
        which, told = self._next()
        if which != "string":
            raise UnknownExpression(f"{kind} of something else than a string")
        self._need(")")
        value = _READ[kind](_unquoted(told))
        return lambda _: value

    def _device(self) -> _Ask:
        self._need(".")
        _, name = self._next()
        if name == "driver":
            return lambda device: device.driver
        if name not in ("attributes", "capacity"):
            raise UnknownExpression(f"`device.{name}`")
        self._need("[")
        kind, told = self._next()
        self._need("]")
        if kind != "string":
            raise UnknownExpression(f"`device.{name}[{told}]`: the domain is no string")
        domain = _unquoted(told)
        if name == "attributes":
            return lambda device: device.attributes.get(domain, {})
        return lambda device: device.capacity.get(domain, {})

    def _bind(self) -> _Ask:
        """A name for something, and an expression with that name in it."""
        for sign in (".", "bind", "("):
            self._need(sign)
        kind, name = self._next()
        if kind != "name" or name in ("device", "cel", "true", "false"):
            raise UnknownExpression(f"`cel.bind` of `{name}`")
        self._need(",")
        value, before = self.either(), self._bound
        self._need(",")
        self._bound = {**before, name: value}
        found = self.either()
        self._bound = before
        self._need(")")
        return found

    def _member(self, found: _Ask) -> _Ask:
        while True:
            if self._take("["):
                kind, told = self._next()
                self._need("]")
                if kind != "string":
                    raise UnknownExpression(f"`[{told}]` in `{_shown(self.text)}`")
                found = _field(found, _unquoted(told))
            elif self._take("."):
                kind, name = self._next()
                if kind != "name":
                    raise UnknownExpression(f"`.{name}` in `{_shown(self.text)}`")
                found = self._call(found, name) if self._take("(") else _field(found, name)
            else:
                return found

    def _call(self, of: _Ask, name: str) -> _Ask:
        if name == "matches":
            kind, told = self._next()
            if kind != "string":
                raise UnknownExpression("`.matches()` of something else than a string")
            self._need(")")
            found = _pattern(_unquoted(told))
            return lambda device: found.search(_as(str, of(device))) is not None
        if name not in _METHODS:
            raise UnknownExpression(f"`.{name}()`")
        arguments, (count, method) = self._until(")"), _METHODS[name]
        if len(arguments) != count:
            raise UnknownExpression(f"`.{name}()` with {len(arguments)} arguments")
        return lambda device: method(of(device), *(one(device) for one in arguments))

    def _next(self) -> tuple[str, str]:
        if self.at >= len(self.tokens):
            raise UnknownExpression(f"`{_shown(self.text)}` ends too early")
        self.at += 1
        return self.tokens[self.at - 1]

    def _take(self, told: str) -> bool:
        is_next = self.at < len(self.tokens) and self.tokens[self.at] in (
            ("sign", told), ("name", told),
        )  # fmt: skip
        self.at += is_next
        return is_next

    def _need(self, told: str) -> None:
        if not self._take(told):
            raise UnknownExpression(f"no `{told}` where one is due in `{_shown(self.text)}`")


def _tokens(text: str) -> list[tuple[str, str]]:
    found, at = list[tuple[str, str]](), 0
    while text[at:].strip():
        token = _TOKEN.match(text, at)
        if token is None or token.lastgroup is None:
            raise UnknownExpression(f"`{text[at:].strip()[:20]}` in `{_shown(text)}`")
        found.append((token.lastgroup, token[token.lastgroup]))
        at = token.end()
    return found


def _unquoted(told: str) -> str:
    return re.sub(r"\\(.)", lambda m: _ESCAPES.get(m[1], m[1]), told[1:-1])


_CLASS = r"\[\^?(?:[\w ./:-]|\\[.dw-])+\]"
_PIECE = re.compile(
    rf"(?P<end>\$)|(?P<sign>\^|\||\((?:\?:)?|\)\??)"
    rf"|(?P<one>(?:{_CLASS}|\\[-.+*?()|{{}}\[\]^$/dw]|[^\\^$*+?()\[\]{{}}|])(?P<often>[*+?]?))"
)
_NO_CASE = "(?i)"
MOST_REPEATS = 3
"""Stars and pluses of a pattern: one more makes trying a text as many times longer as that has
letters, and RE2, by which the API server tries it, has no such trouble."""


def _pattern(text: str) -> re.Pattern[str]:
    """A regular expression, of those that Python and RE2 understand alike."""
    rest, made = text.removeprefix(_NO_CASE), list[str]()
    pieces = [*_PIECE.finditer(rest)]
    repeats = sum(piece["often"] in ("*", "+") for piece in pieces if piece["often"])
    if "".join(piece[0] for piece in pieces) != rest or repeats > MOST_REPEATS:
        raise UnknownExpression(f"`.matches()` of `{_shown(text)}`")
    for piece in pieces:
        made.append(r"\Z" if piece["end"] else piece[0])
    try:
        flags = re.ASCII | (re.IGNORECASE if rest != text else re.NOFLAG)
        return re.compile("".join(made), flags)
    except re.error as error:
        raise UnknownExpression(f"`.matches()` of `{_shown(text)}`") from error


def _shown(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= 120 else words[:119] + "…"


def _either(left: _Ask, right: _Ask) -> _Ask:
    return lambda device: _decided(left, right, device, by=True)


def _both(left: _Ask, right: _Ask) -> _Ask:
    return lambda device: _decided(left, right, device, by=False)


def _decided(left: _Ask, right: _Ask, device: DeviceFacts, *, by: bool) -> bool:
    """One side that decides is enough, whatever is wrong with the other."""
    wrong: _Lacking | None = None
    for side in (left, right):
        try:
            if _as(bool, side(device)) is by:
                return by
        except _Lacking as error:
            wrong = error
    if wrong is not None:
        raise wrong
    return not by


def _related(sign: str, left: _Ask, right: _Ask) -> _Ask:
    def ask(device: DeviceFacts) -> bool:
        a, b = left(device), right(device)
        if sign == "in":
            return _is_in(a, b)
        if sign in ("==", "!="):
            if type(a) is not type(b):
                raise _Lacking
            return bool(a == b) is (sign == "==")
        if type(a) is not type(b) or not isinstance(a, int | str) or isinstance(a, bool):
            raise _Lacking
        return _COMPARED[sign](a, b)

    return ask


def _is_in(one: Value, some: Value) -> bool:
    if isinstance(some, list):
        return any(type(one) is type(other) and one == other for other in some)
    if isinstance(some, Mapping) and isinstance(one, str):
        return one in some
    raise _Lacking


def _field(of: _Ask, name: str) -> _Ask:
    def ask(device: DeviceFacts) -> Value:
        found = of(device)
        if not isinstance(found, Mapping) or name not in found:
            raise _Lacking
        return found[name]

    return ask


def _is_there(found: _Ask, device: DeviceFacts) -> bool:
    try:
        found(device)
    except _Lacking:
        return False
    return True


def _as(kind: type, value: Value) -> Any:  # noqa: ANN401 - of that kind
    if type(value) is not kind:
        raise _Lacking
    return value


def _compared(a: Value, b: Value) -> int:
    if type(a) is not type(b) or not isinstance(a, ExactAmount | Version):
        raise _Lacking
    return int(a > b) - int(a < b)


def _of_texts(method: Callable[[str, str], bool]) -> Callable[[Value, Value], bool]:
    return lambda a, b: method(_as(str, a), _as(str, b))


_METHODS: Mapping[str, tuple[int, Callable[..., Value]]] = {
    "compareTo": (1, _compared),
    "isGreaterThan": (1, lambda a, b: _compared(a, b) > 0),
    "isLessThan": (1, lambda a, b: _compared(a, b) < 0),
    "startsWith": (1, _of_texts(str.startswith)),
    "endsWith": (1, _of_texts(str.endswith)),
    "contains": (1, _of_texts(str.__contains__)),
    "lowerAscii": (0, lambda a: _as(str, a).lower()),
    "upperAscii": (0, lambda a: _as(str, a).upper()),
}
_QUANTITY = re.compile(r"([+-]?(?:\d+(?:\.\d*)?|\.\d+))(?:([eE][+-]?\d+)|([numkMGTPE]|[KMGTPE]i)?)")
_POWERS = {
    "n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000), "": Fraction(1),
    **{letter: Fraction(1000 ** (i + 1)) for i, letter in enumerate("kMGTPE")},
    **{f"{letter}i": Fraction(1024 ** (i + 1)) for i, letter in enumerate("KMGTPE")},
}  # fmt: skip


def quantity(told: str) -> ExactAmount:
    """An amount as Kubernetes writes it: `40Gi`, `500m`, `1e3`."""
    found = _QUANTITY.fullmatch(told.strip())
    if found is None or (found[2] and len(found[2]) > 4):
        raise UnknownExpression(f'quantity("{told[:40]}")')
    if found[2]:
        return ExactAmount(Fraction(found[1]) * Fraction(10) ** int(found[2][1:]))
    return ExactAmount(Fraction(found[1]) * _POWERS[found[3] or ""])


_VERSION = re.compile(
    r"(0|[1-9]\d{0,15})\.(0|[1-9]\d{0,15})\.(0|[1-9]\d{0,15})"
    r"(?:-([0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z.-]+)?"
)


def version(told: str) -> Version:
    """A semantic version: `12.4.0`, `1.0.0-rc.1`."""
    found = _VERSION.fullmatch(told)
    if found is None:
        raise UnknownExpression(f'semver("{told[:40]}")')
    before = tuple(
        (not one.isdecimal(), int(one) if one.isdecimal() else 0, one)
        for one in (found[4] or "").split(".")
        if one
    )
    numbers = (int(found[1]), int(found[2]), int(found[3]))
    return Version(numbers, not before, before)


_READ: Mapping[str, Callable[[str], Value]] = {"quantity": quantity, "semver": version}


def value(kind: str, told: object) -> Value | None:
    """What a driver publishes of a device, by the kind that it says; None: not understood."""
    try:
        match kind, told:
            case ("string", str()) | ("int", int()) | ("bool", bool()):
                return told
            case "version", str():
                return version(told)
            case "quantity", str() | int():
                return quantity(str(told))
    except UnknownExpression:
        return None
    return None
