"""The page can be read: by a screen reader, without colour, in light and in dark."""

import re
from importlib import resources

import pytest

from tests.report import stories
from tests.report.reading import Element, read
from tidemill import report
from tidemill.explain import board
from tidemill.ledger.buckets import GROUP_TITLES, Stage
from tidemill.report import stages

Colours = dict[str, str]


def page() -> Element:
    story = stories.small()
    return read(report.render(story.statement, title="s", board=board(story.world, story.policy)))


def test_it_has_a_language_landmarks_and_one_title():
    """A screen reader finds its way: language, header, nav, main, footer, one h1."""
    tree = page()
    assert tree.one("html")["lang"] == "en"
    for landmark in ("header", "nav", "main", "footer", "h1", "title"):
        found = [e for e in tree.all(landmark) if landmark != "title" or not e.classes]
        assert found, landmark
    assert len(tree.all("h1")) == len(tree.all("main")) == 1
    assert tree.one("meta", name="viewport")["content"].startswith("width=device-width")


def test_ids_are_unique_and_what_refers_to_them_finds_them():
    """Anchors and labels point to something."""
    tree = page()
    ids = [e["id"] for e in tree.all(id="")]
    assert len(ids) == len(set(ids))
    for e in tree.walk():
        for word in (e.get("aria-labelledby") or "").split():
            assert word in ids
        target = e.get("href") or ""
        assert not target.startswith("#") or target[1:] in ids


def test_every_drawing_tells_what_it_shows():
    """A drawing is an image with a title and a description, or is hidden from readers."""
    drawings = [e for e in page().all("svg") if e.get("viewBox") is None and not e.get("viewbox")]
    assert len([e for e in drawings if e.get("role") == "img"]) == 5
    for drawing in drawings:
        if drawing.get("role") == "img":
            first, second = [part for part in drawing.inside if isinstance(part, Element)][:2]
            assert (first.tag, second.tag) == ("title", "desc")
            assert first.text
            assert second.text
        else:
            assert drawing["aria-hidden"] == "true"


def test_every_table_cell_has_a_header():
    """Header cells say whether they head a column or a row; every row has one."""
    for table in page().all("table"):
        assert all(th["scope"] in ("col", "row") for th in table.all("th"))
        for row in table.one("tbody").all("tr"):
            assert row.all("th") or "why" in row.classes


def test_stages_have_names_and_looks():
    """Each stage has a title, and a class in the style sheet."""
    style = page().one("style").text
    for group in Stage:
        assert GROUP_TITLES[group]
        assert f".{stages.style(group)} {{" in style


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_text_has_contrast(mode: str):
    """Ink, quiet text and links stand out from the ground and from raised parts (WCAG AA)."""
    colours = palette(mode)
    for ink in ("ink", "quiet", "accent"):
        for ground in ("ground", "raised"):
            assert contrast(colours[ink], colours[ground]) >= 4.5, (ink, ground)


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_bars_have_contrast(mode: str):
    """The fill or the edge of every bar stands out from the ground (WCAG, graphics)."""
    colours = palette(mode)
    for name in ("sum", *(stages.style(g).removeprefix("s-") for g in Stage)):
        edge = colours.get(f"edge-{name}", colours[name])
        assert contrast(edge, colours["ground"]) >= 3, name


def palette(mode: str) -> Colours:
    """The colours of the style sheet; dark ones override the light."""
    text = (resources.files("tidemill.report") / "templates" / "page.css").read_text("utf-8")
    light, dark = re.findall(r":root \{(.*?)\}", text, re.DOTALL)
    named: list[Colours] = [
        dict(re.findall(r"--([\w-]+): (#\w{6});", part)) for part in (light, dark)
    ]
    return named[0] if mode == "light" else named[0] | named[1]


def contrast(one: str, other: str) -> float:
    """The contrast ratio of WCAG 2."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
