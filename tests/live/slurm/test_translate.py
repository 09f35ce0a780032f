"""What jobs of Slurm become attempts, and which of them held GPUs."""

from pathlib import Path

import pytest

from tidemill.live.history import attempts
from tidemill.live.slurm import hostlists, translate
from tidemill.model.errors import SpecError

HEADER = "JobID|User|Account|State|Submit|Start|End|NNodes|NodeList|AllocTRES|ReqTRES\n"
TIMES = "2026-03-02T08:00:00|2026-03-02T08:00:00|2026-03-02T09:00:00"


def notes_of(tmp_path: Path, *tres: str) -> list[str]:
    """What is said of jobs that held this."""
    path = tmp_path / "sacct.txt"
    rows = [f"{i}|a|x|COMPLETED|{TIMES}|1|m1|{text}|{text}\n" for i, text in enumerate(tres, 1)]
    path.write_text(HEADER + "".join(rows))
    past = translate.read([path], "UTC")
    return [*past.notes, *attempts.put_in_order(past.attempts).notes]


@pytest.mark.parametrize(
    ("tres", "words"),
    [
        (("cpu=4,gres/gpu=1", "cpu=4"), ["1 attempt left out: requested no GPU"]),
        (("cpu=4,gres/gpu:h100=1", "cpu=4"), ["1 attempt left out: requested no GPU"]),
        (("cpu=4,gres/gpu=1", ""), ["1 attempt left out: nobody says whether it had GPUs"]),
        (("cpu=4", "cpu=4"), ["2 attempts left out: nobody says whether it had GPUs"]),
        (
            ("cpu=4,gres/gpu=1", "cpu=4,gres/shard=2"),
            ["1 attempt held shards of GPUs of which nobody says how many a GPU has: not booked"],
        ),
        (("cpu=4,gres/gpu=1,gres/shard=2",), []),
    ],
)
def test_who_had_no_gpu_is_told_from_who_says_nothing(
    tmp_path: Path, tres: tuple[str, ...], words: list[str]
):
    """Where the accounting counts GPUs, a job without had none; where it does not, nobody knows."""
    assert notes_of(tmp_path, *tres) == words


@pytest.mark.parametrize(
    "nodes",
    ["n1", "n1,n2", "n[1-3]", "n[1-2],m7", "n1,,n2", ",n1", "n[2-1]", "n]1[", "None assigned"],
)
def test_the_nodes_of_an_attempt_are_those_of_its_list(tmp_path: Path, nodes: str):
    """Folded or plain; of what is no list nobody knows the nodes."""
    path = tmp_path / "sacct.txt"
    path.write_text(f"{HEADER}1|a|x|COMPLETED|{TIMES}|1|{nodes}|gres/gpu=4|\n")
    try:
        expected = list(hostlists.expand(nodes)) or None
    except ValueError:
        expected = None
    assert translate.read([path], "UTC").attempts["nodes"].to_list() == [expected]


def test_a_folder_is_all_of_its_files_and_what_is_not_slurms_is_noted(tmp_path: Path):
    """Jobs and nodes from two files of it; a text that somebody left there is named."""
    (tmp_path / "jobs.txt").write_text(f"{HEADER}1|a|x|COMPLETED|{TIMES}|1|m1|gres/gpu=1|\n")
    (tmp_path / "nodes.txt").write_text("NodeName=m1 Gres=gpu:h100:8 State=IDLE\n")
    (tmp_path / "notes.md").write_text("what I exported when\n")
    (tmp_path / ".hidden").write_text("nothing\n")
    past = translate.read([tmp_path], "UTC")
    assert (len(past.attempts), [node.name for node in past.nodes]) == (1, ["m1"])
    (note,) = past.notes
    assert note.startswith(f"`{tmp_path / 'notes.md'}` left out: no output of Slurm")


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("empty", "", "`{}`: the file is empty"),
        ("jobs.txt", f"{HEADER}1|a|x|COMPLETED|{TIMES}|1|m1|gres/gpu=1|\n", "`{}`: Submit is"),
        ("other.txt", "hello\n", "`{}`: no output of Slurm"),
    ],
)
def test_a_refusal_names_the_file_and_the_option(tmp_path: Path, name: str, text: str, words: str):
    """Which of the files it is, and `--zone` where a zone is missing."""
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(SpecError) as error:
        translate.read([path], None)
    assert error.value.message.startswith(words.format(path))
    assert ("--zone" in (error.value.hint or "")) == (name == "jobs.txt")


def test_json_of_others_is_said_to_be_none_of_slurms(tmp_path: Path):
    """Valid JSON without a list that Slurm prints, beside a folder without any file."""
    path = tmp_path / "foo.json"
    path.write_text('{"foo": 1}')
    assert translate.read([path], None).notes == (
        "foo.json: JSON, and no job, node or reservation of Slurm in it",
    )
    (tmp_path / "bare").mkdir()
    with pytest.raises(SpecError, match="has no files in it"):
        translate.read([tmp_path / "bare"], None)
