"""A page, read back: a small tree of elements, enough to ask a report what it says."""

import re
from collections.abc import Iterator
from html.parser import HTMLParser

VOID = frozenset({"meta", "link", "br", "hr", "img", "input"})


class Element:
    """A tag with its attributes and what is inside."""

    def __init__(self, tag: str, attributes: dict[str, str]) -> None:
        self.tag, self.attributes = tag, attributes
        self.inside: list[Element | str] = []

    def __getitem__(self, name: str) -> str:
        return self.attributes[name]

    def get(self, name: str) -> str | None:
        """An attribute, if it is there."""
        return self.attributes.get(name)

    @property
    def classes(self) -> list[str]:
        """The words of ``class``."""
        return self.attributes.get("class", "").split()

    @property
    def text(self) -> str:
        """All text inside, in order."""
        return "".join(part if isinstance(part, str) else part.text for part in self.inside)

    def walk(self) -> "Iterator[Element]":
        """This element and all inside, in order."""
        yield self
        for part in self.inside:
            if isinstance(part, Element):
                yield from part.walk()

    def all(self, tag: str = "", of: str = "", **attributes: str) -> "list[Element]":
        """Elements inside with this tag, class and attributes (``data_x=""``: any value)."""
        wanted = {name.replace("_", "-"): value for name, value in attributes.items()}
        return [
            e
            for e in self.walk()
            if (not tag or e.tag == tag)
            and (not of or of in e.classes)
            and all(n in e.attributes and v in ("", e.attributes[n]) for n, v in wanted.items())
        ]

    def one(self, tag: str = "", of: str = "", **attributes: str) -> "Element":
        """The only such element."""
        found = self.all(tag, of, **attributes)
        assert len(found) == 1, f"{len(found)} of {tag}.{of} {attributes}"
        return found[0]


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root = Element("", {})
        self.open = [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = self._add(tag, attrs)
        if tag not in VOID:
            self.open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._add(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        assert self.open[-1].tag == tag, f"</{tag}> closes <{self.open[-1].tag}>"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        self.open[-1].inside.append(data)

    def _add(self, tag: str, attrs: list[tuple[str, str | None]]) -> Element:
        element = Element(tag, {name: value or "" for name, value in attrs})
        self.open[-1].inside.append(element)
        return element


def read(html: str) -> Element:
    """The tree of a page; everything that is opened must be closed, in order."""
    reader = _Reader()
    reader.feed(html)
    reader.close()
    assert reader.open == [reader.root], "something was left open"
    return reader.root


def cents(text: str) -> int:
    """``$1,234.56`` as 123456, ``$1,235`` as 123500."""
    found = re.fullmatch(r"\$([\d,]+)(?:\.(\d\d))?", text.strip())
    assert found, f"not dollars: {text!r}"
    return int(found[1].replace(",", "") + (found[2] or "00"))


def basis_points(text: str) -> int:
    """``47.04 %`` as 4704; a bound (≥) is read as its number."""
    found = re.fullmatch(r"(?:≥\s)?(\d+)\.(\d\d)\s%", text.strip())
    assert found, f"not a percentage: {text!r}"
    return int(found[1] + found[2])


def tenths(text: str) -> int:
    """``1,234.5`` as 12345."""
    found = re.fullmatch(r"([\d,]+)\.(\d)", text.strip())
    assert found, f"not hours: {text!r}"
    return int(found[1].replace(",", "") + (found[2] or "00"))


def width(text: str) -> float:
    """``12.3456%`` as 12.3456."""
    assert text.endswith("%"), text
    return float(text[:-1])
