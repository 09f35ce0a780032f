"""What comes in: words of other systems, limits, numbers that nobody means, and every message."""

import gzip
import re
import tomllib
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.docs import pages
from tidemill.engine.fold import one_event
from tidemill.model.errors import EventRefused, SpecError
from tidemill.model.events import QueueSet
from tidemill.model.measures import HOUR_MS
from tidemill.model.policy import Policy
from tidemill.model.rows import Queue
from tidemill.model.world import World
from tidemill.twin import effort, offered_load
from tidemill.twin.spec import errors, fleet_spec, synonyms
from tidemill.twin.spec import tables as spec_tables
from tidemill.twin.spec import words as spec_words
from tidemill.twin.traces import registry, rows

FLEET = """
[[contract]]
name = "c"
kind = "H100"
count = 64
usd_per_hour = 2.0
[[team]]
name = "t"
"""
JOB = '[[job]]\nname = "j"\nteam = "t"\nwork = "1h"\n'
RUN = 'run = { median = "1h", mean = "2h" }\n'
SIZES = "sizes = { 16 = 1 }\n"
NAMED = 'name = "w"\nteam = "t"\nper_day = 3\n'
WORKLOAD = "[[workload]]\n" + NAMED + RUN


def refused(text: str) -> str:
    """The message and the hint with which a text is refused."""
    with pytest.raises(SpecError) as caught:
        fleet_spec.parse(text, "fleet.toml")
    return f"{caught.value.message}\n{caught.value.hint}"


# Words of other systems -----------------------------------------------------------------------

WORDS = {
    "gpus": (FLEET.replace("count = 64", "gpus = 64"), FLEET),
    "gpu_type": (FLEET.replace("kind =", "gpu_type ="), FLEET),
    "nodes": (FLEET.replace("count = 64", "nodes = 8"), FLEET),
    "nodes of four": (
        FLEET.replace("count = 64", "nodes = 16\ngpus_per_node = 4"),
        FLEET.replace("count = 64", "count = 64\naccelerators_per_node = 4"),
    ),
    "quota": (FLEET + "quota = { H100 = 8 }", FLEET + "guaranteed = { H100 = 8 }"),
    "min and max": (
        FLEET + "min = { H100 = 8 }\nmax = { H100 = 16 }",
        FLEET + "guaranteed = { H100 = 8 }\nmaximum = { H100 = 16 }",
    ),
    "queue": (
        FLEET.replace("[[team]]", "[[queue]]") + JOB.replace("team =", "queue ="),
        FLEET + JOB,
    ),
    "gpus of a job": (FLEET + JOB + "gpus = 8", FLEET + JOB + "accelerators = 8"),
    "nodes of a job": (
        FLEET + JOB + "nodes = 2\ngpus_per_node = 8",
        FLEET + JOB + "accelerators = 16",
    ),
    "gpu_type of a job": (FLEET + JOB + 'gpu_type = "H100"', FLEET + JOB + 'kinds = ["H100"]'),
    "gpus of a workload": (FLEET + WORKLOAD + "gpus = 8", FLEET + WORKLOAD + "sizes = { 8 = 1 }"),
    "binpack": (
        FLEET + '[policy]\nplacement = "binpack"',
        FLEET + '[policy]\nplacement = "pack"',
    ),
    "binpack in a list": (
        FLEET + '[policy]\nplacement = ["binpack", "tide"]',
        FLEET + '[policy]\nplacement = ["pack", "tide"]',
    ),
    "on-demand": (
        FLEET.replace("count", 'terms = "on-demand"\ncount'),
        FLEET.replace("count", 'terms = "on_demand"\ncount'),
    ),
}


@pytest.mark.parametrize("case", WORDS)
def test_words_of_other_systems_are_read_with_a_note(case: str):
    """A file in the words of others is the same fleet, and a note says the name that we use."""
    theirs, ours = (fleet_spec.parse(text) for text in WORDS[case])
    assert ours.notes == ()
    assert theirs.notes
    assert "is read as" in theirs.notes[0]
    assert msgspec.structs.replace(theirs, notes=()) == ours


def test_floor_and_limit_are_read_without_a_note():
    """The words that files had before are read as guaranteed and maximum quota."""
    text = FLEET + "floor = { H100 = 8 }\nlimit = { H100 = 16 }"
    (team,) = fleet_spec.parse(text).teams
    assert (team.floor, team.limit, fleet_spec.parse(text).notes) == ({"H100": 8}, {"H100": 16}, ())


@pytest.mark.parametrize(
    "text",
    [
        FLEET + "floor = { H100 = 8 }\nquota = { H100 = 8 }",
        FLEET + JOB + "gpus = 8\naccelerators = 8",
        FLEET + JOB + "nodes = 1\ngpus_per_node = 8\ngpus = 8",
        FLEET.replace("count = 64", "count = 64\nnodes = 8"),
    ],
)
def test_two_words_for_one_field_are_refused(text: str):
    """Whoever gives both is asked which was meant."""
    assert "mean the same" in refused(text)


def test_every_synonym_means_a_field_that_exists():
    """Each other word leads to a field of its table, or to one that the reader turns into one."""
    tables: dict[str, type[msgspec.Struct]] = {
        "contract": spec_tables.ContractTable,
        "team": spec_tables.TeamTable,
        "job": spec_tables.JobTable,
        "workload": spec_tables.WorkloadTable,
    }
    for table, words in (*synonyms.FIELDS.items(), *synonyms.EARLIER.items()):
        fields = _fields(tables[table]) | {"accelerators"}
        assert set(words.values()) <= fields
        assert not set(words) & (fields - {"accelerators"})


# Messages -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "asked", "hint"),
    [
        ('[policy]\nplacement = "packed"', "one of pack, spread,", "did you mean `pack`?"),
        ('[policy]\nplacement = ["pack", "sprad"]', "one of pack, spread,", "`spread`?"),
        ('[policy]\nbackfill = "eazy"', "one of none, easy, conservative", "`easy`?"),
        ('[twin]\nsharing = "mpz"', "one of time-slice, mps,", "`mps`?"),
        (JOB + 'class = "trainin"', "one of training, inference,", "`training`?"),
        ("quota = 8", "expected a table; found 8", "guaranteed = { H100 = 64 }"),
    ],
)
def test_a_misspelt_word_is_told_what_is_known(line: str, asked: str, hint: str):
    """The message lists the words that are known, and the hint names the nearest."""
    said = refused(FLEET + line if not line.startswith("[twin]") else line + FLEET)
    assert asked in said
    assert hint in said


FIGURES = "parallelism = { sequence = 8192, batch = 64 }\n"
BESIDE = {
    "sizes": RUN,
    "run": SIZES,
    "tide": RUN + SIZES + 'class = "inference"\n',
    "computes": RUN + SIZES + FIGURES,
}
"""What else a workload needs beside the field of an example."""


@pytest.mark.parametrize("example", errors._EXAMPLES.values())
def test_the_example_of_every_hint_is_read(example: str):
    """What a hint shows is taken when it is written into a file."""
    field = example.split(" = ", maxsplit=1)[0]
    work = "[[workload]]\n" + NAMED + BESIDE.get(field, RUN + SIZES)
    files: dict[type[msgspec.Struct], str] = {
        spec_tables.ContractTable: FLEET.replace("count", f"{example}\ncount"),
        spec_tables.TeamTable: FLEET + example,
        spec_tables.WorkloadTable: FLEET + work + example,
    }
    found = [text for kind, text in files.items() if field in _fields(kind)]
    assert found
    for text in found:
        fleet_spec.parse(text)


def _fields(kind: type[msgspec.Struct]) -> set[str]:
    return {field.encode_name for field in msgspec.structs.fields(kind)}


ZERO_RUN = 'run = { median = "0s", mean = "0s" }\n'
HINTS = {
    '[twin]\nhorizon = "0s"' + FLEET: "[twin]\n{}" + FLEET,
    FLEET + JOB.replace('"1h"', '"0s"'): FLEET + '[[job]]\nname = "j"\nteam = "t"\n{}',
    FLEET + JOB + 'checkpoint = { every = "0s" }': FLEET + JOB + "[job.checkpoint]\n{}",
    FLEET + "[[workload]]\n" + NAMED + ZERO_RUN + SIZES: FLEET
    + "[[workload]]\n" + NAMED + SIZES + "{}",
    FLEET + WORKLOAD + 'sizes = { "1_0" = 1 }': FLEET + WORKLOAD + "{}",
    FLEET + '[faults]\nrepair = "soon"': FLEET + "[faults]\n{}",
    FLEET + JOB + 'at = "15d"': "[twin]\n{}" + FLEET + JOB + 'at = "15d"',
    FLEET + JOB + "nodes = 2": FLEET + JOB + "{}",
}  # fmt: skip
"""What is refused with an example, and where that example belongs."""


@pytest.mark.parametrize("wrong", HINTS)
def test_what_a_hint_shows_is_taken(wrong: str):
    """Whoever writes the example of a hint into the file has a file that is read."""
    shown = re.search(r"(?:for example|such as) (.*)", refused(wrong))
    assert shown is not None
    for example in re.split(r"; | or (?=\w+ = )|, or (?=\w+ = )", shown[1]):
        if " = " in example:
            fleet_spec.parse(HINTS[wrong].replace("{}", example.replace(" with ", "\n")))


# Every key that is told about can be written ---------------------------------------------------


@pytest.mark.parametrize("field", [f.name for f in msgspec.structs.fields(Policy)])
def test_every_choice_of_the_policy_can_be_written(field: str):
    """Each field of the policy, written in a file as the reference shows it, is what it was."""
    value = getattr(Policy(), field)
    assert fleet_spec.parse(f"{FLEET}[policy]\n{_written(field, value)}\n").policy == Policy()


def test_steps_of_attained_service_are_durations():
    """`attained_steps` is a list of durations."""
    found = fleet_spec.parse(
        FLEET + '[policy]\norder = "attained"\nattained_steps = ["1h", "5h"]'
    ).policy
    assert found.attained_steps_ms == (HOUR_MS, 5 * HOUR_MS)


def _written(field: str, value: object) -> str:
    name = field.removesuffix("_ms")
    if name != field:
        return f"{name} = {_duration(value)}"
    return f"{name} = {msgspec.json.encode(value).decode()}"


def _duration(value: object) -> str:
    if isinstance(value, tuple):
        return "[" + ", ".join(_duration(item) for item in value) + "]"
    return f'"{value}ms"'


TABLES: dict[str, type[msgspec.Struct]] = {
    "`[twin]`": spec_tables.TwinTable,
    "`[[contract]]`": spec_tables.ContractTable,
    "`[[tier]]`": spec_tables.TierTable,
    "`[[team]]`": spec_tables.TeamTable,
    "`[[workload]]`": spec_tables.WorkloadTable,
    "`[[job]]`": spec_tables.JobTable,
    "`[faults]`": spec_tables.FaultsTable,
    "`computes`": spec_tables.Computes,
}


@pytest.mark.parametrize("heading", TABLES)
def test_the_guide_names_fields_that_exist(heading: str):
    """Every key in a table of the guide is a key of the file."""
    section = _section(heading)
    told = {word for row in pages.tables(section) for line in row for word in _ids(line["field"])}
    assert told
    assert told <= _fields(TABLES[heading])


@pytest.mark.parametrize("kind", [*TABLES.values(), spec_tables.Traits])
def test_the_guide_names_every_field(kind: type[msgspec.Struct]):
    """Every key of the file is named in the guide."""
    text = pages.text_of("docs/guides/describe-a-fleet.md")
    told = set(_ids(text)) | set(re.findall(r"\b(\w+) = ", text))
    assert [f.encode_name for f in msgspec.structs.fields(kind) if f.encode_name not in told] == []


def _section(heading: str) -> str:
    text = pages.text_of("docs/guides/describe-a-fleet.md")
    return text.split(f"## {heading}", 1)[1].split("\n## ", 1)[0]


def _ids(text: str) -> list[str]:
    return re.findall(r"`(\w+)`", text)


# Limits ---------------------------------------------------------------------------------------


def _chain(depth: int) -> str:
    links = [f'[[team]]\nname = "t{i}"\nparent = "t{i - 1}"\n' for i in range(1, depth)]
    return FLEET.replace('"t"', '"t0"') + "".join(links)


def test_a_tree_of_teams_has_a_depth():
    """32 levels are read and run; 800 are refused with a message, in a file and in a journal."""
    assert len(fleet_spec.parse(_chain(32)).teams) == 32
    for depth in (33, 800, 5_000):
        assert "more than 32 teams, each under another" in refused(_chain(depth))
    world = World()
    for i in range(32):
        one_event.fold(world, QueueSet(0, Queue(f"t{i}", (), f"t{i - 1}" if i else "")))
    with pytest.raises(EventRefused, match="32 levels deep already"):
        one_event.fold(world, QueueSet(0, Queue("t32", (), "t31")))


@pytest.mark.parametrize("depth", [100, 300, 900, 5_000, 100_000])
@pytest.mark.parametrize("pair", ["[]", "{a=}"])
def test_deep_nesting_is_refused(depth: int, pair: str):
    """Brackets in brackets, however many, end in a message."""
    opening, closing = pair[:-1], pair[-1]
    value = opening * depth + ("1" if pair != "[]" else "") + closing * depth
    assert "fleet.toml" in refused(FLEET + JOB + f"estimate = {value}\n")


@pytest.mark.parametrize(
    "line",
    [
        'checkpoint = { every = "0s" }',
        'at = "15d"',
        'estimate = "1_0h"',
        'estimate = "\uff11h"',
        'estimate = "1d1d"',
        "accelerators = 0.5",
        "accelerators = -1",
        "accelerators = inf",
        "elastic = nan",
        "mfu = 1.1",
        "mfu = -0.1",
        "priority = 1.5",
        'name = ""',
    ],
)
def test_what_nobody_means_is_refused(line: str):
    """Zero intervals, times after the end, other digits, and numbers out of their range."""
    job = JOB.replace('name = "j"\n', "") if line.startswith("name") else JOB
    assert "[[job]] 1" in refused(FLEET + job + line)


@pytest.mark.parametrize("size", ["1_0", "\uff11", "nan", "inf", "-1", "1.5", "0", "1e9", "0.0001"])
def test_a_size_is_a_plain_number(size: str):
    """A size is a whole number of accelerators or a fraction of one, in plain digits."""
    assert "whole accelerators or a fraction" in refused(
        FLEET + WORKLOAD + f'sizes = {{ "{size}" = 1 }}'
    )


QUANTITIES = (
    *(spec_words.Span, spec_words.Dollars, spec_words.Cores, spec_words.Gib, spec_words.Fraction),
)


@given(st.one_of(st.text(max_size=8), st.integers(), st.floats(), st.booleans(), st.none()))
def test_any_value_is_read_or_refused_by_every_word(value: object):
    """Each quantity of a file reads a value or says what it asks for; nothing else comes out."""
    for word in QUANTITIES:
        try:
            read = spec_words.read(word, value)
        except (TypeError, ValueError) as error:
            read, said = None, str(error)
        assert "expected" in said if read is None else isinstance(read, int)


def test_a_run_that_takes_long_is_told_beforehand():
    """A million jobs a day are announced with their hours and gigabytes; a small file is not."""
    million = WORKLOAD.replace("per_day = 3", "per_day = 1000000")
    many = FLEET.replace("count = 64", "count = 1600000") + million
    found = effort.expected(fleet_spec.parse(many + "sizes = { 1 = 1 }"))
    assert (found.jobs, found.nodes) == (14_000_000, 200_000)
    assert found.words.startswith("about 14,000,000 jobs on 200,000 nodes: expect about 6h 36m")
    assert effort.expected(fleet_spec.parse(FLEET + JOB)).words == ""


# Offered load ---------------------------------------------------------------------------------

A100 = '[[contract]]\nname = "a"\nkind = "A100"\ncount = 8\nusd_per_hour = 1\n'
TWO = FLEET.replace("[[team]]", A100 + "[[team]]")


def test_a_type_that_is_short_shows_although_the_total_fits():
    """16 GPUs for 14 days asked of 8 A100 are 200 % of them, and 22 % of all 72."""
    text = TWO + JOB.replace('"1h"', '"14d"') + 'copies = 2\naccelerators = 8\nkinds = ["A100"]\n'
    found = offered_load.measure(fleet_spec.parse(text))
    by_type = {part.kinds: part.share for part in found.parts}
    assert by_type[("A100",)] == pytest.approx(2)
    assert by_type[("H100",)] == 0
    assert found.share == by_type[("A100", "H100")] == pytest.approx(16 / 72)


def test_work_that_may_choose_counts_where_it_may_go():
    """A job for either type is no load of one type alone."""
    text = TWO + JOB.replace('"1h"', '"14d"') + "accelerators = 8\n"
    found = offered_load.measure(fleet_spec.parse(text))
    assert [round(part.share, 3) for part in found.parts] == [0, 0, round(8 / 72, 3)]


def test_capacity_counts_for_as_long_as_it_is_paid():
    """A contract that ends at half time gives half of its hours."""
    text = FLEET.replace("count = 64", 'count = 64\nend = "7d"') + JOB.replace('"1h"', '"7d"')
    found = offered_load.measure(fleet_spec.parse(text + "accelerators = 32\n"))
    assert found.share == pytest.approx(0.5)
    assert found.hourly[-1] == 0


def test_a_job_after_the_horizon_is_refused_with_the_horizon_it_needs():
    """It would be left out without a word; a spec cut short in Python counts it as late."""
    assert 'horizon = "15d"' in refused(FLEET + JOB + 'at = "15d"')
    assert "after the horizon" in refused(FLEET + WORKLOAD + 'sizes = { 1 = 1 }\nstart = "15d"')
    whole = fleet_spec.parse(FLEET + JOB + 'at = "10d"')
    cut = msgspec.structs.replace(
        whole, twin=msgspec.structs.replace(whole.twin, horizon=spec_words.Span(HOUR_MS))
    )
    found = offered_load.measure(cut)
    assert (found.late, found.jobs) == (("j",), 0)


# Traces ---------------------------------------------------------------------------------------

PHILLY = "timestamp,duration,num_gpus,gpu_time,cluster\n2017-10-09 07:01:55,66.0,1,66.0,x\n"


def _trace(folder: Path, text: str) -> Path:
    path = folder / "philly.csv"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("gpu_time,", "duration,", "2 columns called `duration`"),
        ("66.0,x", "66.0,x,y", "has 6 cells; the header has 5"),
        (",1,", ",1_0,", "expected a number"),
        (",1,", ",\uff11,", "expected a number"),
        ("66.0,1", "inf,1", "expected a number"),
        ("66.0,1", "nan,1", "expected a number"),
    ],
)
def test_a_table_that_can_be_misread_is_refused(tmp_path: Path, old: str, new: str, said: str):
    """Two columns of one name, more cells than columns, and numbers that nobody means."""
    with pytest.raises(SpecError, match=re.escape(said)):
        registry.load(_trace(tmp_path, PHILLY.replace(old, new, 1)))


def test_a_job_of_no_time_is_noted(tmp_path: Path):
    """A recorded run time of 0 counts as a millisecond, and a note says how many there were."""
    found = registry.load(_trace(tmp_path, PHILLY.replace("66.0,1", "0,1")))
    assert "1 of 1 jobs ran for no time" in found.notes[-1]


def test_the_note_on_an_assumed_fleet_says_how_busy_it_would_be(tmp_path: Path):
    """Eight accelerators for 66 s of one in a day are 0 % busy, not 80 %."""
    assert "8 accelerators, one node; the jobs fill 0 % of them over 1d" in " ".join(
        registry.load(_trace(tmp_path, PHILLY)).notes
    )


def test_a_packed_file_that_swells_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A small file that unpacks without end stops at the bound."""
    monkeypatch.setattr(rows, "MAX_CHARACTERS", 100_000)
    path = tmp_path / "philly.csv.gz"
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.write(PHILLY.splitlines()[0] + "\n" + "\n" * 1_000_000)
    with pytest.raises(SpecError, match="holds more than 100,000 characters, unpacked"):
        registry.load(path)


def test_the_samples_here_are_files_that_are_read():
    """What these tests start from is good."""
    assert tomllib.loads(FLEET + JOB)
    fleet_spec.parse(FLEET + JOB)
    fleet_spec.parse(FLEET + WORKLOAD + "sizes = { 1 = 1 }")
