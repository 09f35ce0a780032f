"""What people who know only the guides met: each claim of an answer, held against what is so."""

import json
import time
from pathlib import Path

import pytest

from tests.cli.shell import tidemill
from tests.conftest import ROOT
from tests.live.kubernetes.made import listed, node, pod
from tidemill.cli.policy_file import PolicyFile
from tidemill.ledger import missing


def test_a_shadow_with_a_policy_file_that_is_not_there_does_not_start(tmp_path: Path):
    """Nor one whose file cannot be used: before any cluster is looked for."""
    asked = ("schedule", "kubernetes", "--shadow", "-j", str(tmp_path / "j.sqlite"))
    missing = tidemill(*asked, "--policy", str(tmp_path / "none.toml"))
    assert missing.code != 0
    assert "none.toml` cannot be read" in missing.err
    (tmp_path / "bad.toml").write_text("[policy]\nbackfil = 'none'\n", encoding="utf-8")
    bad = tidemill(*asked, "--policy", str(tmp_path / "bad.toml"))
    assert bad.code != 0
    assert "backfil" in bad.err
    assert not (tmp_path / "j.sqlite").exists()


def test_a_service_that_counts_its_requests_is_called_one(tmp_path: Path):
    """It is of class inference, and is not advised to call what it calls."""
    folder, journal = ROOT / "examples" / "track" / "h200-service", str(tmp_path / "j.sqlite")
    files = (folder / "jobs.csv", "--nodes", folder / "nodes.csv")
    track = ("--track", str(folder / "records.jsonl"), "-j", journal)
    made = tidemill("import", "csv", *map(str, files), *track)
    assert missing.LOOPS not in made.out.replace("\n", " ")
    assert missing.SERVICES in made.out.replace("\n", " ")
    assert "user bob, inference" in tidemill("efficiency", journal, "--job", "chat").out
    assert (
        "1 job said while running to be a service"
        in tidemill("ledger", journal, "--by", "class").err
    )
    doctor = " ".join(tidemill("doctor", "-j", journal).out.split())
    assert "services whose requests are counted 1 of 1 service" in doctor


def _priced(folder: Path, table: str, *more: str) -> str:
    """What an import says of prices, on one line."""
    (folder / "prices.csv").write_text(table, encoding="utf-8")
    history = ROOT / "examples" / "history"
    found = tidemill(
        "import", "csv", str(history / "jobs.csv"), "--nodes", str(history / "nodes.csv"),
        "--prices", str(folder / "prices.csv"), "-j", str(folder / "priced.sqlite"), "--force",
        *more,
    )  # fmt: skip
    return " ".join(found.err.split())


def test_a_price_of_a_type_that_no_node_has_is_said(tmp_path: Path):
    """`H10O` prices nobody, and is not silent; another name of the type is its price."""
    assert "no node is of type `H10O`; nodes have `A100`, `H100`" in _priced(
        tmp_path, "type,usd_per_gpu_hour\nH10O,2.5\n"
    )
    assert "no node is of type" not in _priced(
        tmp_path, "type,usd_per_gpu_hour\nNVIDIA-H100-80GB-HBM3,2.5\nA100,1\n"
    )


@pytest.mark.parametrize(
    ("row", "said"),
    [("H100,-2,,", "in row 2, a price below zero hint: dollars per hour"),
     ("H100,1e30,,", "in row 2, a price above ten million dollars an hour"),
     ("H100,2,2026-12-01,2026-01-01", "from `2026-12-01` to `2026-01-01`, which is never")],
)  # fmt: skip
def test_a_price_that_cannot_be_is_refused(tmp_path: Path, row: str, said: str):
    """With the row, and what helps."""
    assert said in _priced(tmp_path, f"type,usd_per_gpu_hour,start,end\n{row}\n")


@pytest.mark.parametrize(
    ("given", "said"),
    [("=2", "is `=2`, which is no price"), ("1e400", "is `1e400`, which is no price"),
     ("h100=2,H100=3", "gives `H100` two prices"), ("2.5,50", "gives all GPUs two prices"),
     ("2,50", "one price with a decimal comma hint: write 2.50;"),
     ("H100=2,50", "`2,50` looks like one price with a decimal comma hint: write H100=2.50;"),
     ("A100=1.60,H100=2,50", "hint: write A100=1.60,H100=2.50;"),
     ("H100=1,200.50", "hint: write H100=1200.50;")],
)  # fmt: skip
def test_a_rate_that_cannot_be_is_refused(tmp_path: Path, given: str, said: str):
    """A decimal comma is named as such, with what to write instead."""
    table = "type,usd_per_gpu_hour\nH100,2\n"
    assert said in _priced(tmp_path, table, "--usd-per-hour", given)


def test_another_file_than_a_table_of_jobs_is_called_what_it_is(tmp_path: Path):
    """What sacct printed, and what is no text."""
    (tmp_path / "junk.csv").write_bytes(bytes(range(256)))
    junk = tidemill("import", "csv", "junk.csv", "-j", "j.sqlite", cwd=tmp_path)
    assert "`junk.csv` is no table in text" in junk.err
    sacct = str(ROOT / "examples" / "history" / "sacct.txt")
    other = tidemill("import", "csv", sacct, "-j", "j.sqlite", cwd=tmp_path)
    assert "hint: it is what a command of Slurm prints: tidemill import slurm" in other.err


def test_a_table_whose_jobs_are_all_left_out_says_why(tmp_path: Path):
    """One that is over, nobody says since when, has GPUs."""
    row = "a,8,2026-11-01T00:00:00Z,2026-11-01T01:00:00Z,COMPLETED"
    (tmp_path / "jobs.csv").write_text(f"job,gpus,submit,start,state\n{row}\n", encoding="utf-8")
    found = tidemill("import", "csv", "jobs.csv", "-j", "j.sqlite", cwd=tmp_path)
    assert "no job to account (1 attempt left out: nobody knows when it ended)" in found.err
    assert "those that `state` calls over are left out, the others still run" in found.err
    assert "gres/gpu" not in found.err


def test_a_replay_is_not_written_over_its_original(tmp_path: Path):
    """Also not with --force, nor by another spelling of its path."""
    history, journal = ROOT / "examples" / "history", tmp_path / "j.sqlite"
    tidemill("import", "csv", str(history / "jobs.csv"), "-j", str(journal))
    before = journal.read_bytes()
    found = tidemill("twin", "replay", str(journal), "--into", f"{tmp_path}/./j.sqlite", "--force")
    assert found.code != 0
    assert "the journal that is to be played again" in found.err
    assert journal.read_bytes() == before


def test_a_second_replay_and_names_that_the_journal_does_not_have(tmp_path: Path):
    """The hint has the option of the command; a name that nothing answers to is said."""
    history, journal = ROOT / "examples" / "history", str(tmp_path / "j.sqlite")
    tidemill("import", "csv", str(history / "jobs.csv"), "-j", journal)
    assert tidemill("twin", "replay", journal).code == 0
    again = tidemill("twin", "replay", journal)
    assert "a replay begins a journal of its own" in again.err
    assert "choose another with --into, or replace it with --force" in again.err
    policy = tmp_path / "policy.toml"
    policy.write_text(
        '[[team]]\nname = "visoin"\nguaranteed = { B900 = 4 }\n'
        '[[team]]\nname = "all"\n[[team]]\nname = "vision"\nparent = "all"\n',
        encoding="utf-8",
    )
    found = tidemill("twin", "replay", journal, "--policy", str(policy), "--force")
    assert "names team `visoin`, which the journal does not have; it has `nlp`" in found.err
    assert "names GPU type `B900`, which the journal does not have" in found.err
    assert "`all`" not in found.err
    assert "job(s)" not in found.err


def test_a_policy_file_that_cannot_be_read_says_why(tmp_path: Path):
    """In words, not by the name of an exception."""
    (tmp_path / "junk.toml").write_bytes(bytes(range(128, 256)))
    for path, said in ((tmp_path, "Is a directory"), (tmp_path / "junk.toml", "no text in UTF-8")):
        found = tidemill("twin", "replay", str(tmp_path / "j.sqlite"), "--policy", str(path))
        assert f"`{path}` cannot be read: " in found.err
        assert said in found.err


def test_a_policy_file_that_is_being_written_is_read_when_it_rests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """An empty file, as an editor leaves it for a moment, is a policy without any quota."""
    clock = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    path = tmp_path / "policy.toml"
    path.write_text("[policy]\n", encoding="utf-8")
    file = PolicyFile(path)
    path.write_text("", encoding="utf-8")
    assert not file.has_changed()
    clock[0] += 0.3
    path.write_text('[policy]\nmin_run = "1m"\n', encoding="utf-8")
    assert not file.has_changed()
    clock[0] += 0.6
    assert file.has_changed()
    assert file.read().policy.min_run_ms == 60_000
    assert not file.has_changed()


def test_an_empty_file_is_called_empty(tmp_path: Path):
    """Of Kubernetes too, with what leaves one; beside another file it is no fault."""
    (tmp_path / "pods.json").write_text(" \n", encoding="utf-8")
    found = tidemill("import", "kubernetes", "pods.json", "-j", "j.sqlite", cwd=tmp_path)
    assert found.code != 0
    assert "`pods.json` is empty" in found.err
    assert "kubectl writes nothing where it fails" in found.err
    assert "gres/gpu" not in found.err
    told = listed(node("n0"), pod("a", 8, on="n0"))
    (tmp_path / "nodes.json").write_text(json.dumps(told), encoding="utf-8")
    both = ("pods.json", "nodes.json", "-j", "j.sqlite")
    assert tidemill("import", "kubernetes", *both, cwd=tmp_path).code == 0


def test_a_time_of_another_age_is_left_out_and_said(tmp_path: Path):
    """9999999999 seconds are the year 2286: somebody's "never"."""
    first = "JobID|User|Account|Submit|Start|End|State|AllocTRES|NodeList"
    rows = [
        f"{n}|ann|ml|1790000000|1790000000|{end}|COMPLETED|gres/gpu=8|g1"
        for n, end in ((1, 1_790_003_600), (2, 9_999_999_999))
    ]
    (tmp_path / "sacct.txt").write_text("\n".join([first, *rows]) + "\n", encoding="utf-8")
    found = tidemill("import", "slurm", "sacct.txt", "-j", "j.sqlite", cwd=tmp_path)
    assert found.code == 0, found.err
    assert "1 attempt left out: has a time after the year 2100" in " ".join(found.err.split())


def test_force_replaces_journals_and_nothing_else(tmp_path: Path):
    """A text and a report stay as they are; an empty file and a journal make way."""
    (tmp_path / "notes.txt").write_text("mine", encoding="utf-8")
    (tmp_path / "new.sqlite").touch()
    told = ("import", "csv", str(ROOT / "examples" / "history" / "jobs.csv"), "--force", "-j")
    for words in (told, [word for word in told if word != "--force"]):
        found = tidemill(*words, "notes.txt", cwd=tmp_path)
        assert found.code != 0
        assert "`notes.txt` is not a file that Tidemill wrote, and no journal" in found.err
        assert "--force" not in found.err, "it would not help"
    assert (tmp_path / "notes.txt").read_text(encoding="utf-8") == "mine"
    for _ in range(2):
        assert tidemill(*told, "new.sqlite", cwd=tmp_path).code == 0


def test_a_roll_up_says_what_stays(tmp_path: Path):
    """Events go by whole batches: a short journal keeps its last one, whatever --keep says."""
    jobs = str(ROOT / "examples" / "history" / "jobs.csv")
    tidemill("import", "csv", jobs, "-j", "j.sqlite", cwd=tmp_path)
    found = tidemill("journal", "roll-up", "j.sqlite", "--keep", "0s", cwd=tmp_path)
    assert found.code == 0
    said = " ".join(found.err.split())
    assert "a batch goes only when all of it is older than --keep, and the last one stays" in said


FREE = {"no_demand", "held", "fragmented", "quota", "topology", "cause_unknown"}


def test_gpus_behind_a_taint_are_kept_from_nobody_who_does_not_tolerate_it(tmp_path: Path):
    """`b` waits beside eight free GPUs: it is kept from them only where no taint is in its way."""
    taint = {"key": "dedicated", "value": "vision", "effect": "NoSchedule"}
    for name, taints, is_nobodys in (("with", [taint], True), ("without", [], False)):
        told = listed(node("n0"), node("n1", taints=taints), pod("a", 8, on="n0"), pod("b", 8))
        (tmp_path / f"{name}.json").write_text(json.dumps(told), encoding="utf-8")
        tidemill("import", "kubernetes", f"{name}.json", "-j", f"{name}.sqlite", cwd=tmp_path)
        found = json.loads(tidemill("ledger", f"{name}.sqlite", "--json", cwd=tmp_path).out)
        free = {one["key"] for one in found["lines"] if one["milli_ms"]} & FREE
        assert (free == {"no_demand"}) == is_nobodys, free


def test_a_loop_that_was_killed_is_on_the_books_until_it_last_spoke(tmp_path: Path):
    """Its file ends within a line, and tells of no end: its time counts, and the cut is said."""
    whole = (ROOT / "examples" / "track" / "h200" / "records.jsonl").read_text().splitlines()
    run = json.loads(whole[0])["run"]
    own = [line for line in whole if json.loads(line)["run"] == run and "ended" not in line]
    told = [json.loads(line) for line in own[: len(own) // 2]]
    times = [one[name] for one in told for name in ("at_us", "from_us", "until_us") if name in one]
    cut = tmp_path / "cut.jsonl"
    cut.write_text("".join(json.dumps(one) + "\n" for one in told) + own[len(own) // 2][:30])
    journal = str(tmp_path / "j.sqlite")
    made = tidemill("import", "track", str(cut), "--gpu-type", "H200", "-j", journal)
    assert "ends within a line" in made.err
    books = json.loads(tidemill("efficiency", journal, "--json").out)
    assert books["total"]["held_milli_ms"] == 1000 * (max(times) // 1000 - min(times) // 1000)


def test_one_price_is_one(tmp_path: Path):
    """A line that begins and ends within the books: the time without a price is no price."""
    said = _priced(tmp_path, "type,usd_per_gpu_hour,start,end\nH100,2.5,2026-11-02,2026-11-03\n")
    assert "prices: " in said
    assert "prices in their time" not in said


def test_nodes_that_nobody_tells_of_are_not_known_to_be_well(tmp_path: Path):
    """A table of jobs says nothing of nodes: out of service is unknown; a list of Slurm's nodes
    says how they are, not how they were; with its record of events they are known, and zero.
    """
    history, out = ROOT / "examples" / "history", ("unhealthy", "cordoned", "draining")

    def unknown(*asked: str) -> set[str]:
        journal = str(tmp_path / "j.sqlite")
        tidemill("import", *asked, "-j", journal, "--force")
        books = json.loads(tidemill("ledger", journal, "--json").out)
        return {row["key"] for row in books["unknown"]} & {*out}

    assert unknown("csv", str(history / "jobs.csv")) == {*out}
    sacct = str(history / "sacct.txt")
    assert unknown("slurm", sacct, "--zone", "UTC") == {*out}
    nodes, events = str(history / "nodes.txt"), tmp_path / "events.txt"
    assert unknown("slurm", sacct, nodes, "--zone", "UTC") == {"unhealthy", "cordoned"}
    events.write_text("NodeName|TimeStart|TimeEnd|State|Reason|User\n")
    told = unknown("slurm", sacct, nodes, str(events), "--zone", "UTC")
    assert told == {"cordoned"}  # a reservation for maintenance that is over is in no list


def test_rows_that_stand_twice_in_a_table_are_said(tmp_path: Path):
    """One job is made of them."""
    row = "a,2,2026-11-02T08:00:00Z,2026-11-02T09:00:00Z\n"
    (tmp_path / "jobs.csv").write_text("job,gpus,start,end\n" + 2 * row, encoding="utf-8")
    made = tidemill("import", "csv", str(tmp_path / "jobs.csv"), "-j", str(tmp_path / "j.sqlite"))
    assert "rows with the job, start and end of an earlier one: 1" in made.err
    assert "1 job of 1 team" in made.out
