"""Files that nobody should write: whatever the text, the answer is a Spec or a SpecError."""

import tomllib
from itertools import islice

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.twin.test_spec import GOOD
from tidemill.model.errors import SpecError
from tidemill.model.measures import DAY_MS
from tidemill.twin import generate
from tidemill.twin.spec import fleet_spec

LINES = GOOD.splitlines()
WILD = st.sampled_from(
    [
        *("0", "-1", "7", "1e300", "-1e300", "nan", "inf", "0.0001", "99999999999999999999"),
        *('""', '"x"', '"1d"', '"-1d"', '"9999999999y"', '"H100"', '"\\u0000"', '"inference"'),
        *("[]", "{}", "[1]", "[[1]]", "{a=1}", '["H100"]', "true", "1979-05-27"),
        *('{median="1h", mean="2h"}', "{low=0.1}", "{every=0}", '{"0.5"=1, 64=2}', "{H100=1}"),
    ]
)
OTHER_KEYS = (
    "end start tide active class labels estimate rhythm mfu pool coupling copies fraction busy"
    " gpus gpu_type nodes gpus_per_node quota min max floor guaranteed queue kind duration"
)
KEYS = st.sampled_from(
    [*sorted({line.split(" = ")[0] for line in LINES if " = " in line}), *OTHER_KEYS.split()]
)
FEW_JOBS = 2000  # a story this small is also told, as far as its first arrivals


def refused_or_read(data):
    """Nothing but a SpecError, with a hint, may come out; what is read can also be run."""
    try:
        found = fleet_spec.parse_bytes(data, "fuzz.toml")
    except SpecError as error:
        return error.hint
    if sum(row.per_day for row in found.workloads) * found.twin.horizon < FEW_JOBS * DAY_MS:
        for _ in islice(generate.stream(found), 100):
            pass
    return "read"


@settings(deadline=None)
@given(line=st.integers(0, len(LINES) - 1), key=KEYS, value=WILD, keep=st.booleans())
def test_a_changed_value_is_read_or_refused(line, key, value, keep):
    """Any known key with any kind of value, anywhere."""
    lines = list(LINES)
    lines[line : line + 1] = [lines[line], f"{key} = {value}"] if keep else [f"{key} = {value}"]
    assert refused_or_read("\n".join(lines).encode())


@settings(deadline=None)
@given(st.lists(st.sampled_from(LINES), max_size=40))
def test_shuffled_lines_are_read_or_refused(lines):
    """Any of the lines of a good file in any order."""
    assert refused_or_read("\n".join(lines).encode())


@settings(deadline=None)
@given(st.integers(0, len(GOOD)), st.integers(0, 40), st.text(max_size=20))
def test_a_damaged_text_is_read_or_refused(at, length, put):
    """Any piece of a good file replaced by any text."""
    text = GOOD[:at] + put + GOOD[at + length :]
    assert refused_or_read(text.encode(errors="replace"))


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data):
    """Any bytes at all."""
    assert refused_or_read(data)


def test_the_good_file_is_good():
    """What the fuzz starts from is a file that is read."""
    assert tomllib.loads(GOOD)
    fleet_spec.parse(GOOD)
