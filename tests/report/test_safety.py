"""Names come from strangers, and the page loads nothing and runs nothing."""

import base64
import hashlib
import re

import pytest

from tests.report import stories
from tests.report.reading import read
from tidemill import report
from tidemill.explain import board
from tidemill.report.page import coded


def hostile_page() -> str:
    story = stories.hostile()
    shown = board(story.world, story.policy)
    return report.render(
        story.statement,
        title=stories.HOSTILE,
        subtitle=stories.HOSTILE,
        board=shown,
        now_text=stories.HOSTILE,
        command=stories.HOSTILE,
    )


def test_names_are_text():
    """A name that holds a script is shown as it is spelt, and runs nowhere."""
    html = hostile_page()
    tree = read(html)
    assert html.count("<script") == 1, "our own, which sorts tables"
    assert "alert" not in tree.one("script").text
    assert tree.one("h1").text == stories.HOSTILE
    assert tree.one("table", data_by="team").one("tbody").all("bdi")[0].text == stories.HOSTILE
    assert stories.HOSTILE in tree.one("table", of="pending").text


def test_no_name_reaches_an_attribute_that_acts():
    """There are no handlers, no inline styles, no addresses but anchors and the icon."""
    tree = read(hostile_page())
    for element in tree.walk():
        for name, value in element.attributes.items():
            assert not name.startswith("on")
            assert name not in ("style", "src", "srcset", "action")
            if name == "href":
                assert value.startswith(("#", "data:image/svg+xml,")), value


def test_control_characters_never_reach_the_file():
    """Control characters and half surrogates are spelt out; the page can always be written."""
    html = report.render(stories.nothing(), title="a\x00b\x1bc\ud800d")
    assert read(html).one("h1").text == r"a\x00b\x1bc\ud800d"
    assert html.encode()


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def test_the_policy_allows_one_style_sheet_and_one_script():
    """Other scripts, frames, forms and requests are forbidden; ours are named by their hashes."""
    tree = read(hostile_page())
    policy = tree.one("meta", http_equiv="Content-Security-Policy")["content"]
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    style = tree.one("style").text
    digest = _digest(style)
    assert rules == {
        "default-src": "'none'",
        "style-src": f"'sha256-{digest}'",
        "script-src": f"'sha256-{_digest(tree.one('script').text)}'",
        "img-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
    }


def test_nothing_is_fetched():
    """No address of another place is in the file, except the name space inside the icon."""
    addresses = re.findall(r"https?://[^\s'\"]+", hostile_page())
    assert set(addresses) == {"http://www.w3.org/2000/svg"}
    assert "@import" not in hostile_page()
    assert re.findall(r"url\(([^)]*)\)", hostile_page()) == ["#hatch"]


@pytest.mark.parametrize(
    ("words", "html"),
    [
        ("no ids", "no ids"),
        ("`a` and `b`", "<code>a</code> and <code>b</code>"),
        ("`<b>` & more", "<code>&lt;b&gt;</code> &amp; more"),
        ("an odd ` one", "an odd ` one"),
        ("", ""),
    ],
)
def test_ids_in_backticks_are_set_apart(words: str, html: str):
    """Every part is escaped; an odd backtick is somebody's own and stays."""
    assert str(coded(words)) == html
