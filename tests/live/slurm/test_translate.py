"""What jobs of Slurm become attempts, and which of them held GPUs."""

from pathlib import Path

import pytest

from tidemill.live.history import attempts, events
from tidemill.live.history.rows import AttemptEnd
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


QUEUED = """\
JOBID;STATE;REASON;SUBMIT_TIME;START_TIME;NODES;NODELIST;USER;ACCOUNT;PARTITION;TRES_PER_NODE
2;RUNNING;None;2026-03-02T08:00:00;2026-03-02T08:00:00;1;m1;a;x;p;gres:gpu:4
3;PENDING;Resources;2026-03-02T08:00:00;N/A;1;;a;x;p;gres:gpu:8
"""
SHOWN = (
    "JobId=2 UserId=a(1) Account=x JobState=RUNNING Reason=None SubmitTime=2026-03-02T08:00:00"
    " StartTime=2026-03-02T08:00:00 NodeList=m1 NumNodes=1 TRES=node=1,gres/gpu=4\n"
)


def _of_clusters(tmp_path: Path, now: str, *clusters: str) -> translate.SlurmPast:
    """Jobs 2 and 3 of each cluster by sacct, which names it, and what a text says that does not."""
    when, ask = "2026-03-02T08:00:00", "gres/gpu=8"
    rows = [
        f"2|a|x|RUNNING|{when}|{when}|Unknown|1|m1|gres/gpu=4|gres/gpu=4|{name}\n"
        f"3|a|x|PENDING|{when}|Unknown|Unknown|1|None assigned||{ask}|{name}\n"
        for name in clusters
    ]
    (tmp_path / "sacct.txt").write_text(HEADER.replace("\n", "|Cluster\n") + "".join(rows))
    (tmp_path / "now.txt").write_text(now)
    (tmp_path / "nodes.txt").write_text("NodeName=m1 Gres=gpu:8 State=MIXED\n")
    return translate.read([tmp_path], "UTC")


@pytest.mark.parametrize("now", [QUEUED, SHOWN])
def test_rows_that_name_no_cluster_are_of_the_one_that_others_name(tmp_path: Path, now: str):
    """A text of squeue has no column for it: its jobs are those of sacct, under plain names."""
    found = _of_clusters(tmp_path, now, "lab").attempts
    assert sorted(found["job"]) == ["2", "3"]
    assert found["cluster"].null_count() == 2


def test_rows_that_name_no_cluster_beside_several_are_refused(tmp_path: Path):
    """They may be the jobs of either."""
    with pytest.raises(SpecError, match=r"\(east, west\) beside jobs that name no cluster"):
        _of_clusters(tmp_path, QUEUED, "east", "west")


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


def _states(tmp_path: Path, *rows: str) -> tuple[list[str], tuple[str, ...]]:
    """How attempts ended that sacct prints so; and what is said of them."""
    (tmp_path / "sacct.txt").write_text(HEADER + "".join(f"{row}\n" for row in rows))
    past = translate.read([tmp_path / "sacct.txt"], "UTC")
    found = attempts.put_in_order(past.attempts)
    return [end for part in found.attempts.each("outcome") for end in part["outcome"]], past.notes


def test_a_resized_job_goes_on_and_a_special_exit_failed(tmp_path: Path):
    """Slurm prints a row of its own for what a job held before it was resized."""
    day, gpus = "2026-03-02T", "gres/gpu=4|gres/gpu=4"
    resized = (
        f"1|a|x|RESIZING|{day}08:00:00|{day}08:00:00|{day}09:00:00|1|m1|{gpus}",
        f"1|a|x|COMPLETED|{day}08:00:00|{day}09:00:00|{day}10:00:00|1|m1|{gpus.replace('4', '2')}",
    )
    assert _states(tmp_path, *resized)[0] == [AttemptEnd.CHANGED, AttemptEnd.DONE]
    assert _states(tmp_path, f"1|a|x|SPECIAL_EXIT|{TIMES}|1|m1|{gpus}")[0] == [AttemptEnd.FAILED]


def test_a_job_that_slurm_refused_is_said(tmp_path: Path):
    """The books have no failure without a start."""
    times = TIMES.replace("|2026-03-02T08:00:00", "|Unknown")
    _, notes = _states(tmp_path, f"1|a|x|FAILED|{times}|1|None assigned||gres/gpu=4",
                       f"2|a|x|COMPLETED|{TIMES}|1|m1|gres/gpu=4|gres/gpu=4")  # fmt: skip
    assert "1 job FAILED without a start (refused by Slurm): on the books as cancelled" in notes


def test_a_job_on_gpus_of_two_types_agrees_with_both_nodes(tmp_path: Path):
    """Nothing is said of its types, and it may wait for either."""
    tres = "gres/gpu:a100=1,gres/gpu:h100=1,gres/gpu=2"
    sacct, listed = tmp_path / "sacct.txt", tmp_path / "nodes.txt"
    sacct.write_text(f"{HEADER}1|a|x|COMPLETED|{TIMES}|2|m[1-2]|{tres}|{tres}\n")
    listed.write_text("NodeName=m1 Gres=gpu:a100:8\nNodeName=m2 Gres=gpu:h100:8\n")
    past = translate.read([sacct, listed], "UTC")
    history = events.build(past.attempts, past.nodes)
    assert not any("another GPU type" in note for note in history.notes)
    shapes = [row for batch in history.batches() for row in batch.dictionary.shapes.rows]
    assert {role.kinds for shape in shapes for role in shape.roles} == {("A100", "H100")}


def test_two_exports_of_one_cluster_have_each_qos_once(tmp_path: Path):
    """What is said of its limit counts it once."""
    (tmp_path / "sacct.txt").write_text(
        f"{HEADER}1|a|x|COMPLETED|{TIMES}|1|m1|gres/gpu=4|gres/gpu=4\n"
    )
    for name in ("one.txt", "two.txt"):
        (tmp_path / name).write_text("Name|GrpTRES|MaxTRESPU\ncapped|gres/gpu=4|\n")
    notes = translate.read([tmp_path], "UTC").notes
    assert [note for note in notes if "1 QOS (capped) may use" in note]
