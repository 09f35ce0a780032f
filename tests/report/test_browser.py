"""The report in a real browser: the waterfall is there, in pixels, on screen and on paper."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from tests.report import stories
from tests.report.browser import (
    DARK,
    Colour,
    Pixels,
    colour,
    fills,
    is_colour,
    page_count,
    printed,
    screenshot,
)
from tests.report.reading import Element, read, width
from tests.report.test_reading_it import palette
from tidemill import report
from tidemill.explain import board
from tidemill.ledger.buckets import Bucket

DESKTOP = (1280, 1400)
PHONE = (390, 1900)
MARGIN_PX = 16


class Frame(NamedTuple):
    """Where the drawing is on the screen, found by its first and longest bar (paid)."""

    left: int
    top: int
    width: int


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small story's report as a file."""
    return written(stories.small(), tmp_path_factory.mktemp("report"))


@pytest.fixture(scope="module")
def light(page: Path) -> Pixels:
    """How it looks on a desk."""
    return screenshot(page, *DESKTOP)


def test_the_waterfall_is_on_the_screen(page: Path, light: Pixels):
    """Every bar that is wide enough to see has its colour at its place, and nothing beside it."""
    assert bars_seen(page, light) >= 8


def test_the_demo_is_on_the_screen(tmp_path: Path):
    """The report of the fleet that ships with Tidemill shows its waterfall and what was useful."""
    page = written(stories.demo(), tmp_path)
    picture = screenshot(page, *DESKTOP)
    assert bars_seen(page, picture) >= 8
    assert useful_seen(page, picture) == pytest.approx(useful_share(stories.demo()), abs=0.004)


def test_stages_come_in_the_ledgers_order(page: Path, light: Pixels):
    """From top to bottom the colours first appear as the stages do: paid first, useful last."""
    frame = found(light, palette("light"))
    wide = [style_of(bar) for bar in rows(page, "waterfall") if share_of(bar) > 2]
    expected = [name for name in dict.fromkeys(wide) if name != "unknown"]
    height = int(read(page.read_text("utf-8")).one("svg", id="waterfall")["height"])
    picture = light[frame.top : frame.top + height, frame.left : frame.left + frame.width + 1]
    first = {name: first_row(picture, colour(palette("light")[name])) for name in expected}
    assert sorted(expected, key=lambda name: first[name]) == expected
    assert expected[0] == "sum"
    assert expected[-1] == "useful"


def test_the_useful_bar_is_as_long_as_its_share(page: Path, light: Pixels):
    """Useful over paid, measured in pixels, is useful over paid in the ledger."""
    share = useful_share(stories.small())
    assert useful_seen(page, light) == pytest.approx(share, abs=0.004)
    assert share > 0.05


def test_what_nobody_knows_is_hatched(page: Path, light: Pixels):
    """Unknown is told by its pattern, not by its colour alone."""
    colours = palette("light")
    frame = found(light, colours)
    first, *_ = rows(page, "waterfall")
    bar = next(bar for bar in rows(page, "waterfall") if bar.get("data-bucket") == "unknown")
    rect = bar.one("rect", of="bar")
    y = frame.top + int(rect["y"]) - int(first.one("rect", of="bar")["y"]) + 8
    left = round(frame.left + width(rect["x"]) * frame.width / 100) + 2
    line = light[y, left : left + round(width(rect["width"]) * frame.width / 100) - 4]
    assert is_colour(line, colour(colours["unknown"])).any()
    assert is_colour(line, colour(colours["unknown-ground"])).any()


def test_dark_mode_is_dark(page: Path):
    """Where the reader prefers dark, the ground is dark and the waterfall has its dark colours."""
    dark = screenshot(page, *DESKTOP, DARK)
    colours = palette("dark")
    assert tuple(dark[4, 4]) == colour(colours["ground"])
    frame = found(dark, colours)
    y = frame.top + int(rows(page, "waterfall")[-1].one("rect", of="bar")["y"]) + 4
    assert longest(is_colour(dark[y], colour(colours["useful"]))) is not None
    assert frame.width > 500


def test_a_phone_shows_it_whole(page: Path):
    """On a narrow screen the bars use its whole width, and nothing sticks out at the side."""
    narrow = screenshot(page, *PHONE)
    colours = palette("light")
    frame = found(narrow, colours)
    assert frame.left == pytest.approx(MARGIN_PX, abs=1)
    assert frame.width == pytest.approx(PHONE[0] - 2 * MARGIN_PX, abs=2)
    height = int(read(page.read_text("utf-8")).one("svg", id="waterfall-narrow")["height"])
    edge = narrow[: frame.top + height, PHONE[0] - MARGIN_PX + 2 :]
    assert is_colour(edge, colour(colours["ground"])).all()


def test_paper_is_light_and_not_blank(page: Path):
    """Printed, it has pages with the waterfall's light colours, also for those who read in dark."""
    paper = printed(page, DARK)
    assert 2 <= page_count(paper) <= 12
    colours = palette("light")
    assert {colour(colours[name]) for name in ("useful", "free", "sum", "ink")} <= fills(paper)
    assert colour(palette("dark")["ground"]) not in fills(paper)


def test_an_empty_ledger_opens_too(tmp_path: Path):
    """A page about nothing has words on it."""
    path = tmp_path / "empty.html"
    path.write_text(report.render(stories.nothing(), title="empty"), "utf-8")
    shown = screenshot(path, 800, 600)
    assert is_colour(shown, colour(palette("light")["ink"])).sum() > 200


def written(story: stories.Story, folder: Path) -> Path:
    """A story's report as a file."""
    path = folder / "report.html"
    shown = board(story.world, story.policy)
    path.write_text(report.render(story.statement, title="fleet", board=shown), "utf-8")
    return path


def bars_seen(page: Path, picture: Pixels) -> int:
    """How many bars are wide enough to see; each must have its colour, at its place, alone."""
    colours = palette("light")
    ground = colour(colours["ground"])
    bars = rows(page, "waterfall")
    frame = found(picture, colours)
    seen = 0
    for bar in bars:
        rect = bar.one("rect", of="bar")
        style = rect.classes[1].removeprefix("s-")
        left = frame.left + width(rect["x"]) * frame.width / 100
        wide = width(rect["width"]) * frame.width / 100
        y = frame.top + int(rect["y"]) - int(bars[0].one("rect", of="bar")["y"]) + 8
        if wide < 6 or style == "unknown":
            continue
        line = is_colour(picture[y], colour(colours[style]))
        run = longest(line)
        assert run is not None, style
        assert run[0] == pytest.approx(left, abs=2), style
        assert run[1] - run[0] == pytest.approx(wide, abs=3), style
        beside = [x for x in (round(left) - 4, round(left + wide) + 4) if frame.left <= x]
        assert all(tuple(picture[y, x]) == ground for x in beside), style
        seen += 1
    return seen


def useful_seen(page: Path, picture: Pixels) -> float:
    """The useful bar over the paid bar, in pixels."""
    colours = palette("light")
    frame = found(picture, colours)
    useful = rows(page, "waterfall")[-1]
    y = frame.top + int(useful.one("rect", of="bar")["y"])
    run = longest(is_colour(picture[y + 4], colour(colours["useful"])))
    assert run is not None
    return (run[1] - run[0] - 1) / frame.width


def useful_share(story: stories.Story) -> float:
    """Useful over paid, in the ledger."""
    account = story.statement.total()
    return account.milli_ms[Bucket.USEFUL] / account.paid_milli_ms


def rows(page: Path, chart: str) -> list[Element]:
    """The rows of a waterfall, paid first."""
    return read(page.read_text("utf-8")).one("svg", id=chart).all("g", of="row")


def style_of(bar: Element) -> str:
    return bar.one("rect", of="bar").classes[1].removeprefix("s-")


def share_of(bar: Element) -> float:
    return width(bar.one("rect", of="bar")["width"])


def found(picture: Pixels, colours: dict[str, str]) -> Frame:
    """The paid bar: the first stretch of its colour that is longer and higher than any rule."""
    mask = is_colour(picture, colour(colours["sum"]))
    for y in np.flatnonzero(mask.sum(axis=1) > 250).tolist():
        run = longest(mask[y])
        if run is not None and run[1] - run[0] > 250 and mask[y : y + 10, run[0]].all():
            return Frame(run[0], y, run[1] - run[0] - 1)  # less the edge, half a pixel each side
    pytest.fail("there is no waterfall on the screen")


def longest(line: np.ndarray) -> tuple[int, int] | None:
    """Begin and end of the longest stretch that is true."""
    padded = np.diff(np.concatenate(([0], line.astype(np.int8), [0])))
    starts, ends = np.flatnonzero(padded == 1), np.flatnonzero(padded == -1)
    if not len(starts):
        return None
    best = int((ends - starts).argmax())
    return int(starts[best]), int(ends[best])


def first_row(picture: Pixels, wanted: Colour) -> int:
    """The first row with a stretch of this colour that is no letter or rule."""
    mask = is_colour(picture, wanted)
    for y in np.flatnonzero(mask.sum(axis=1) >= 8).tolist():
        run = longest(mask[y])
        if run is not None and run[1] - run[0] >= 8:
            return int(y)
    pytest.fail(f"{wanted} is not on the screen")
