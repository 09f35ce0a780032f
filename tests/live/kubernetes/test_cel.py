"""Selectors of devices: what is understood is exact, what is not is refused by name."""

from fractions import Fraction

import pytest

from tidemill.live.kubernetes import cel
from tidemill.live.kubernetes.cel import DeviceFacts, UnknownExpression

GPU = "gpu.nvidia.com"
H100 = DeviceFacts(
    GPU,
    {
        GPU: {
            "productName": "NVIDIA H100 80GB HBM3", "type": "gpu", "index": 3, "isGood": True,
            "driverVersion": cel.version("550.54.15"),
        },
        "resource.kubernetes.io": {"pcieRoot": "pci0000:00"},
    },
    {GPU: {"memory": cel.quantity("80Gi")}},
)  # fmt: skip


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ('device.driver == "gpu.nvidia.com"', True),
        ("device.driver != 'gpu.nvidia.com'", False),
        (f'device.attributes["{GPU}"].productName == "NVIDIA H100 80GB HBM3"', True),
        (f'device.attributes["{GPU}"]["type"] in ["gpu", "mig"]', True),
        (f'device.attributes["{GPU}"].index >= 3', True),
        (f'device.attributes["{GPU}"].index < 3', False),
        (f'device.attributes["{GPU}"].index == -3', False),
        (f'device.attributes["{GPU}"].isGood', True),
        (f'!device.attributes["{GPU}"].isGood', False),
        (f'device.attributes["{GPU}"].productName.lowerAscii().contains("h100")', True),
        (f'device.attributes["{GPU}"].productName.startsWith("NVIDIA A")', False),
        (f'device.capacity["{GPU}"].memory.compareTo(quantity("40Gi")) >= 0', True),
        (f'device.capacity["{GPU}"].memory.compareTo(quantity("80Gi")) == 0', True),
        (f'device.capacity["{GPU}"].memory.isGreaterThan(quantity("85899345920"))', False),
        (f'device.attributes["{GPU}"].driverVersion.compareTo(semver("550.0.0-rc.1")) > 0', True),
        (f'device.attributes["{GPU}"].driverVersion.isLessThan(semver("551.0.0"))', True),
        (f'"type" in device.attributes["{GPU}"] && has(device.attributes["{GPU}"].type)', True),
        (f'has(device.attributes["{GPU}"].absent)', False),
        (f'device.attributes["{GPU}"].absent == "x"', False),
        (f'device.attributes["{GPU}"].absent == "x" || device.driver == "{GPU}"', True),
        (f'!(device.attributes["{GPU}"].absent == "x")', False),
        (f'device.attributes["{GPU}"].index == "3"', False),
        (f'device.attributes["other.example"].x == 1 && device.driver == "{GPU}"', False),
        (f'(device.driver == "a" || device.driver == "{GPU}") && true', True),
        ('device.attributes["resource.kubernetes.io"].pcieRoot == "pci0000:00"', True),
        (f'cel.bind(c, device.capacity["{GPU}"], has(c.memory) && has(c.more))', False),
        (f'cel.bind(c, device.capacity["{GPU}"], c.memory == quantity("80Gi") || c.x == 1)', True),
        (
            f'cel.bind(a, device.attributes["{GPU}"], cel.bind(b, a.index, b == 3 && a.isGood))',
            True,
        ),
        (f'device.attributes["{GPU}"].productName.matches("H100")', True),
        (f'device.attributes["{GPU}"].productName.matches("^H100")', False),
        (f"device.attributes['{GPU}'].productName.lowerAscii().matches('^.*h100.*$')", True),
        (f'device.attributes["{GPU}"].productName.matches("(?i)nvidia (a|h)100 [0-9]+GB")', True),
        (f'device.attributes["{GPU}"].productName.matches("^NVIDIA (A100|L4)$")', False),
        (f'device.attributes["{GPU}"].productName.matches("80GB$")', False),
        (f'device.attributes["{GPU}"].productName.matches("8\\\\dGB HBM3?$")', True),
        (f'!device.attributes["{GPU}"].productName.matches("A100")', True),
        (f'device.attributes["{GPU}"].index.matches("3")', False),
    ],
)
def test_expressions_hold_as_cel_has_it(text: str, holds: bool):
    """Comparisons are of one type; what is missing does not match unless the other side decides."""
    assert cel.selector(text).holds(H100) is holds


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ('device.attributes["a"].x.matches("(h.*)+")', "`.matches()` of `(h.*)+`"),
        ('device.attributes["a"].x.matches("h{2}")', "`.matches()` of `h{2}`"),
        ('device.attributes["a"].x.matches("(?=h)")', "`.matches()` of `(?=h)`"),
        ('device.attributes["a"].x.matches(".*a.*b.*c.*")', "`.matches()` of `.*a.*b.*c.*`"),
        ('device.attributes["a"].x.matches("(h")', "`.matches()` of `(h`"),
        ('device.attributes["a"].x.matches(device.driver)', ".matches()` of something else"),
        ('device.attributes["a"].x.split("h")', ".split()"),
        ("device.allowMultipleAllocations", "device.allowMultipleAllocations"),
        ('cel.map(a, device.driver, a == "x")', "no `bind`"),
        ('cel.bind("a", device.driver, true)', "`cel.bind` of"),
        ('cel.bind(a, device.driver, a == "x") && a == "x"', "`a` in"),
        ('device.attributes["a"].?x.orValue(1) == 1', "?x"),
        ("device.driver ==", "ends too early"),
        ('device.driver == "a" ? true : false', "? true"),
        ("1.5 < 2", "1.5"),
        ('quantity("much") == quantity("1")', 'quantity("much")'),
        ("(" * 100 + "true" + ")" * 100, "too deep"),
        ('device.driver == "a" device.driver', "`device`"),
    ],
)
def test_what_is_not_understood_is_refused_by_name(text: str, named: str):
    """Nothing is guessed: the message says which part of the expression is unknown."""
    with pytest.raises(UnknownExpression) as refused:
        cel.selector(text)
    assert named in str(refused.value)


def test_quantities_are_exact():
    """Where floats would round."""
    assert cel.quantity("0.1").amount == Fraction(1, 10)
    assert cel.quantity("1e3") == cel.quantity("1k")
    assert cel.quantity("9007199254740993").amount == 9007199254740993
