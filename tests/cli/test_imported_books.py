"""Books of an imported fleet: what nobody measured is unknown, what is assumed says so."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.cli.shell import tidemill
from tests.conftest import ROOT
from tidemill.ledger.missing import FLOPS

JOBS = """\
job,user,team,gpus,submit,start,end,state,node
a,ann,vision,4,2026-11-02 08:00,2026-11-02 08:00,2026-11-02 12:00,completed,n1
b,bob,nlp,4,2026-11-02 08:00,2026-11-02 12:00,2026-11-02 20:00,completed,n1
c,cat,nlp,2,2026-11-02 08:00,2026-11-02 08:30,2026-11-02 10:30,completed,n2
"""
NODES = """\
node,gpus,gpu_type,instance_type
n1,4,A100,p4d.24xlarge
n2,8,H100,p5.48xlarge
"""
COSTS = ("--usd-per-hour", "2")
ASSUMED = ("--assume", "training.mfu=0.35")


def books(folder: Path, *options: str, jobs: str = JOBS, nodes: str = NODES) -> str:
    """The journal of a small history."""
    for name, text in (("jobs.csv", jobs), ("nodes.csv", nodes)):
        (folder / name).write_text(text)
    journal = str(folder / "fleet.sqlite")
    ran = tidemill(
        "import", "csv", str(folder / "jobs.csv"), "--nodes", str(folder / "nodes.csv"),
        "-j", journal, "--force", *options,
    )  # fmt: skip
    assert ran.code == 0, ran.err
    return journal


def asked(*words: str) -> str:
    """What a command answers."""
    ran = tidemill(*words)
    assert ran.code == 0, ran.err
    return ran.out


def document(journal: str, command: str = "ledger", *more: str) -> Any:
    """The answer as JSON."""
    return json.loads(asked(command, journal, *more, "--json"))


def page(journal: str) -> str:
    """The report of a journal."""
    path = Path(journal).with_suffix(".html")
    asked("report", journal, "--out", str(path))
    return path.read_text().replace("\u00a0", " ")


def goodput(html: str, factor: str) -> str:
    """One factor of goodput as a page prints it."""
    row = html.split(f'data-goodput="{factor}"')[1]
    return row.split("<dd>")[1].split("</dd>")[0]


def test_what_lasted_is_unknown_where_no_loss_was_measured(tmp_path: Path):
    """No source says what was idle, lost or done again: then 100 % is no figure, but unknown."""
    journal = books(tmp_path, *COSTS)
    assert goodput(page(journal), "runtime") == "unknown"
    assert document(journal)["goodput"]["runtime_is_upper_bound"] is True
    assert ">none<" not in page(journal).replace(" ", "")
    assumed = books(tmp_path, *COSTS, *ASSUMED)
    assert "× runtime unknown ×" in asked("ledger", assumed)


def test_what_lasted_is_at_most_so_much_where_some_loss_is_known(tmp_path: Path):
    """A start-up that is assumed is lost; what else was, nobody knows."""
    journal = books(tmp_path, *COSTS, *ASSUMED, "--assume", "training.startup=12m")
    said = document(journal)["goodput"]
    assert said["runtime_is_upper_bound"] is True
    lasted = f"≤ {100 * float(said['runtime']['decimal']):.1f}%"
    assert f"× runtime {lasted} ×" in asked("ledger", journal)
    assert goodput(page(journal), "runtime").startswith("≤ ")


def test_list_prices_are_not_shown_as_paid(tmp_path: Path):
    """The page says by whom each hour was priced, and that list prices are assumed."""
    html = page(books(tmp_path, "--list-prices"))
    assert "list price, assumed" in html
    paid = html.split('data-figure="paid"')[1].split("</dd>")[0]
    assert paid.endswith(", assumed")
    assert "list price" not in page(books(tmp_path, *COSTS))


def test_each_hour_is_told_with_who_priced_it(tmp_path: Path):
    """A rate for one GPU type and a file for another: both are named, and add up."""
    (tmp_path / "prices.csv").write_text("type,usd_per_gpu_hour\np5.48xlarge,4\n")
    prices = ("--usd-per-hour", "A100=1", "--prices", str(tmp_path / "prices.csv"))
    said = asked("ledger", books(tmp_path, *prices)).replace("\n", " ")
    assert "48.0 accelerator-hours by the rate that was given" in said
    assert "96.0 accelerator-hours by `prices.csv`" in said


def test_an_assumed_share_is_called_assumed_and_bounds_nothing(tmp_path: Path):
    """With an assumed MFU: no *at least*, no *at most*, in ledger, breakdown, page and JSON."""
    journal = books(tmp_path, *COSTS, *ASSUMED)
    said = asked("ledger", journal)
    assert "at least" not in said
    assert "at most" not in said
    assert "of the dollars, assumed" in said
    assert "%, assumed" in asked("ledger", journal, "--by", "team")
    html = page(journal)
    assert "At least" not in html
    assert ", assumed: so much of the accelerator-hours" in html
    found = document(journal)["goodput"]
    assert (found["is_assumed"], found["is_lower_bound"]) == (True, False)


def test_an_assumed_total_without_a_job_says_at_least(tmp_path: Path):
    """A job that failed has no efficiency, whatever is assumed: every total lacks it, and says so.

    Of 48 + 4 GPU-hours held, c's 4 are unknown: useful is 0.35 of 48, of 144 paid.
    """
    failed = JOBS.replace("2026-11-02 10:30,completed", "2026-11-02 10:30,failed")
    journal = books(tmp_path, *COSTS, *ASSUMED, jobs=failed)
    told = " ".join(asked("ledger", journal).split())
    assert (
        "useful: at least 11.67 % of the hours paid for and 11.67 % of the dollars, assumed" in told
    )
    assert "a useful hour at most $17.14, assumed" in told
    assert "program ≥ 32.3%, assumed" in told
    assert "MFU ≥ 11.7% (assumed)" in told
    rows = asked("efficiency", journal).splitlines()
    (total,) = (" ".join(row.split()) for row in rows if row.startswith(" all jobs"))
    assert total == "all jobs 52.000 ? ? ? ? ? ? ≥ 60.0 a 7.7 ? ≥ 32.3 a $104.00 ≥ $62.40 a"
    (whole,) = (" ".join(row.split()) for row in rows if row.startswith(" b "))
    assert whole.endswith("65.0 a 0.0 35.0 a $64.00 $41.60 a")
    found = document(journal)
    assert found["goodput"]["is_lower_bound"]
    assert found["goodput"]["is_assumed"]
    held = document(journal, "efficiency")["total"]
    assert held["wasted_is_lower_bound"]
    assert held["use"]["mfu_is_lower_bound"]
    html = page(journal)
    assert "At least 11.67 %, assumed: so much" in html
    assert "≥ 11.67 %, assumed" in html


def test_wasted_dollars_say_how_they_are_known(tmp_path: Path):
    """A letter beside them, a column of its own in the list of the worst, and a field."""
    journal = books(tmp_path, *COSTS, *ASSUMED)
    last = asked("efficiency", journal).splitlines()[-1].split()
    assert last[-1] == "a"
    assert {row["wasted_known"] for row in document(journal, "efficiency")["rows"]} == {"assumed"}
    assert asked("ledger", journal, "--top", "1").splitlines()[-1].split()[-1] == "assumed"
    assert document(journal)["top_jobs"][0]["known"] == "assumed"


def test_waste_that_nobody_knows_is_not_zero(tmp_path: Path):
    """Neither in dollars nor as an empty table."""
    journal = books(tmp_path, *COSTS)
    assert asked("efficiency", journal).splitlines()[-1].split()[-1] == "?"
    assert document(journal, "efficiency")["total"]["wasted_usd_micro"] is None
    assert asked("ledger", journal, "--top", "5").startswith("no job is known to have wasted")


def test_what_was_all_lost_was_not_modelled(tmp_path: Path):
    """A job that failed before its first save lost all of it, by an assumed interval: nothing of it
    was useful, and that is as assumed as the loss.
    """
    failed = JOBS.replace("completed,n2", "failed,n2")
    journal = books(
        tmp_path, *COSTS, *ASSUMED, "--assume", "training.checkpoint_interval=1d", jobs=failed
    )
    row = next(r for r in document(journal, "efficiency")["rows"] if r["key"] == "c")
    known = {part["key"]: part["known"] for part in row["parts"] if part["milli_ms"] == 0}
    assert known["useful"] == "assumed"
    assert "modelled" not in known.values()


def test_where_nothing_ran_nothing_is_modelled(tmp_path: Path):
    """A fleet whose only job waits: that nothing was useful was seen."""
    jobs = JOBS.splitlines()[0] + "\nd,ann,vision,16,2026-11-02 08:00,,,pending,\n"
    journal = books(tmp_path, *COSTS, "--to", "2026-11-02 20:00", jobs=jobs)
    said = document(journal)
    useful = next(line for line in said["lines"] if line["key"] == "useful")
    assert (useful["milli_ms"], useful["confidence"]) == (0, "measured")
    assert said["utilisation"]["mfu_known"] == "measured"


def test_a_line_for_what_nobody_knows_is_not_shown_empty(tmp_path: Path):
    """There was no time that nobody watched: then the page has no line for it."""
    html = page(books(tmp_path, *COSTS, *ASSUMED))
    assert 'data-bucket="not_observed"' not in html


UNSUBMITTED = """\
job,gpus,start,end,node
a,4,2026-11-02 08:00,2026-11-02 12:00,n1
b,2,2026-11-02 14:00,2026-11-02 16:00,n2
"""


def test_waits_that_nobody_knows_are_not_zero(tmp_path: Path):
    """Without times of submission: waits are unknown everywhere, and so is the demand for what was
    free.
    """
    journal = books(tmp_path, *COSTS, jobs=UNSUBMITTED)
    said = asked("ledger", journal)
    assert "waits: unknown, because nobody said when jobs were submitted" in said
    assert "no demand" not in said
    assert "free: cause unknown" in said
    found = document(journal)
    assert found["waits"]["total"]["wait_ms"] is None
    assert found["waits"]["total"]["jobs"] == 2
    waited = tidemill("ledger", journal, "--waits")
    assert "0s" not in waited.out
    assert "unknown, because nobody said" in waited.err
    assert "unknown, because nobody said" in page(journal)
    assert tidemill("ledger", journal, "--waits", "--csv").out.splitlines()[1].startswith("2,2,0,")
    told = {one["what"]: one["so"] for one in document(journal, "doctor")}
    assert "times of submission" in told["when jobs were submitted"]


def test_waits_of_tracked_loops_are_unknown(tmp_path: Path):
    """A loop knows when it began, and not when it was submitted."""
    records = ROOT / "examples" / "track" / "h200" / "records.jsonl"
    journal = str(tmp_path / "loops.sqlite")
    asked("import", "track", str(records), "--gpu-type", "H200", "-j", journal)
    assert document(journal)["waits"]["total"]["wait_ms"] is None


def test_books_without_any_time_tell_nothing_yet(tmp_path: Path):
    """One record, of a loop that just began: no zero dollars, no measured zero, no advice of it."""
    record = {"v": 1, "is": "job_began", "job": "pretrain", "run": "6600", "rank": 0, "seq": 0,
              "at_us": 1794925781902466, "named_by": "given", "team": "research", "host": "vm",
              "pid": 8302, "library": "0.1.0"}  # fmt: skip
    (tmp_path / "one.jsonl").write_text(json.dumps(record) + "\n")
    done = tidemill("import", "track", "one.jsonl", "-j", "one.sqlite", cwd=tmp_path)
    assert done.code == 0, done.err
    assert "nothing to tell yet: no time passed in these books" in " ".join(done.out.split())
    assert "$" not in done.out
    assert "measured" not in done.out
    assert "%" not in done.out


_COLUMNS = "JobID|Account|State|Submit|Eligible|Start|End|NNodes|NodeList|AllocTRES|ReqTRES|Reason"
_DAY = "2026-03-02T"
HELD = f"""\
{_COLUMNS}
1|a|COMPLETED|{_DAY}08:00:00|{_DAY}08:00:00|{_DAY}08:30:00|{_DAY}12:30:00|1|g1|gres/gpu=4|gres/gpu=4|
2|a|PENDING|{_DAY}09:00:00|{_DAY}09:00:00|Unknown|Unknown|1|None assigned||gres/gpu=4|Resources
3|b|PENDING|{_DAY}09:00:00|Unknown|Unknown|Unknown|1|None assigned||gres/gpu=4|JobHeldUser
"""


def test_jobs_that_are_held_are_counted_apart(tmp_path: Path):
    """Waits are of those that wait for GPUs, and say of how many; the sentences are sentences."""
    (tmp_path / "sacct.txt").write_text(HELD)
    journal = str(tmp_path / "held.sqlite")
    said = asked("import", "slurm", str(tmp_path / "sacct.txt"), "--zone", "UTC", "-j", journal)
    assert "1 waiting, 1 held" in said
    assert "waits: 2 jobs, mean" in said
    html = page(journal)
    assert "at most ≥" not in html
    assert "Of 2 jobs half waited at most 30m, and one in ten waited at least 3h 30m" in html


def test_what_is_missing_is_said_to_those_who_can_tell_it(tmp_path: Path):
    """A loop that told its steps is asked for its FLOPs, not to call what it calls already."""
    records = tmp_path / "records.jsonl"
    given = (ROOT / "examples" / "track" / "h200" / "records.jsonl").read_text().splitlines()
    told = [line for line in given if '"efficiency"' not in line]
    records.write_text("\n".join(re.sub(r',"mflop":\d+', "", line) for line in told))
    journal = str(tmp_path / "loops.sqlite")
    asked("import", "track", str(records), "--gpu-type", "H200", "-j", journal)
    said = asked("ledger", journal).replace("\n", " ")
    assert "run.efficiency(mfu=…)" in said
    assert "call tidemill.track in the loops" not in said
    so = {one["what"]: one["so"] for one in document(journal, "doctor")}["training loops"]
    assert so == FLOPS
    bare = books(tmp_path, *COSTS)
    assert "call tidemill.track in the loops" in asked("ledger", bare).replace("\n", " ")


def test_small_amounts_are_not_all_zero(tmp_path: Path):
    """Four minutes of one GPU: every line of the ledger that holds something shows it, in hours and
    in dollars, and so does the advice.
    """
    jobs = JOBS.splitlines()[0] + "\na,ann,vision,1,1794859600,1794859620,1794859840,completed,n\n"
    nodes = "node,gpus,gpu_type\nn,1,A100\n"
    journal = books(tmp_path, *COSTS, jobs=jobs, nodes=nodes)
    said = asked("ledger", journal)
    rows = [line.split() for line in said.splitlines() if "  worked, eff" in line]
    assert [row[3] for row in rows] == ["0.06111"]
    assert "$0.1222" in rows[0]
    assert "$0 " not in said
    assert "worked, efficiency unknown, $0.12" in said
    html = page(journal)
    assert "0.06111" in html
    assert "read in one piece" not in html, "a short window has bins of a minute"


def test_users_see_what_they_held(tmp_path: Path):
    """GPU-hours held come first, in every breakdown, and rows add up; JSON and CSV have them."""
    journal = books(tmp_path, *COSTS)
    by_user = asked("ledger", journal, "--by", "user").splitlines()
    held = {line.split()[0]: line.split()[1] for line in by_user[1:]}
    assert held == {"(nobody)": "0.0", "ann": "16.0", "bob": "32.0", "cat": "4.0", "paid": "52.0"}
    rows = document(journal, "ledger", "--by", "user")["breakdown"]["rows"]
    assert {row["key"]: row["held_milli_ms"] for row in rows}["cat"] == 4 * 3_600_000_000
    assert "held_milli_ms" in asked("ledger", journal, "--by", "user", "--csv").splitlines()[0]
    assert "hours of a user:" in tidemill("ledger", journal, "--by", "user").err


def test_names_with_commas_are_told_apart(tmp_path: Path):
    """A list of lines whose names have commas is parted by semicolons."""
    said = tidemill("ledger", books(tmp_path)).err
    assert "reserved, not launched; launched, not Ready; " in said


def test_a_page_of_thousands_of_jobs_stays_small(tmp_path: Path):
    """It names the largest and says how many more there are; the JSON too."""
    header, first = JOBS.splitlines()[:2]
    jobs = "\n".join(first.replace("a,", f"{i}th,", 1).replace("n1", f"n{i}") for i in range(3_000))
    nodes = "node,gpus,gpu_type\n" + "".join(f"n{i},4,A100\n" for i in range(3_000))
    journal = books(tmp_path, *COSTS, jobs=f"{header}\n{jobs}\n", nodes=nodes)
    html = page(journal)
    assert len(html) < 150_000
    assert " and 2,990 more" in html
    leaks = document(journal)["leaks"]
    fix = next(leak for leak in leaks if leak["key"] == "unknown")["fix"]
    assert (len(fix["who"]), fix["who_count"]) == (10, 3_000)


def test_a_row_is_not_shown_to_waste_more_than_it_cost(tmp_path: Path):
    """Columns that add up are off by less than their last digit, and parts stay parts."""
    start = "2026-11-02 08:00"
    rows = [f"j{i},ann,vision,1,{start},{start},2026-11-02 09:0{i},completed,n2" for i in range(8)]
    jobs = [JOBS.splitlines()[0], *rows]
    journal = books(tmp_path, "--usd-per-hour", "1.37", *ASSUMED, jobs="\n".join(jobs))
    exact = {row["key"]: row for row in document(journal, "efficiency")["rows"]}
    for line in asked("efficiency", journal).splitlines()[2:-1]:
        key, *_, cost, wasted, _ = line.split()
        shown = [float(text.strip("$")) for text in (cost, wasted)]
        whole = [exact[key][name] / 1e6 for name in ("usd_micro", "wasted_usd_micro")]
        assert shown[1] <= shown[0]
        assert all(abs(a - b) < 0.01 for a, b in zip(shown, whole, strict=True))


def test_one_amount_is_rounded_one_way(tmp_path: Path):
    """A leak of one node group costs what its node group does, half a dollar up in both."""
    history, journal = ROOT / "examples/history", str(tmp_path / "slurm.sqlite")
    ran = tidemill(
        "import", "slurm", str(history / "sacct.txt"), str(history / "nodes.txt"), "--zone",
        "Europe/Berlin", "--usd-per-hour", "2.50", "-j", journal,
    )  # fmt: skip
    assert ran.code == 0, ran.err
    assert re.search(r"free: no demand, \$58\)\n +because: node group `H100 x8` \$58\n", ran.out)


def test_a_difference_has_useful_hours_as_the_ledger_prints_them(tmp_path: Path):
    """Largest remainders in both: no hour is 3,009.4 in one and 3,009.3 in the other."""
    start = "2026-11-02 08:00"
    rows = [f"j{i},ann,vision,1,{start},{start},2026-11-12 08:{i}3,completed,n2" for i in range(6)]
    jobs = [JOBS.splitlines()[0], *rows]
    journal = books(tmp_path, *COSTS, *ASSUMED, jobs="\n".join(jobs))
    useful = re.search(r"^ +useful +([\d.,]+)", asked("ledger", journal), re.MULTILINE)
    compared = asked("ledger", "diff", journal, journal)
    differs = re.search(r"^ useful GPU-hours +([\d.,]+) ", compared, re.MULTILINE)
    assert useful is not None
    assert differs is not None
    assert useful[1] == differs[1]


def test_a_difference_shows_what_differs(tmp_path: Path):
    """A spread that is the same on both sides is one row, counts of nothing are none, and small
    amounts have decimals; what is printed adds up.
    """
    journals = []
    for name, end in (("a", "12:00"), ("b", "11:00")):
        (tmp_path / name).mkdir()
        small = "job,gpus,submit,start,end,state,node\n" + "".join(
            f"j{i},1,2026-11-02 08:00,2026-11-02 08:0{i},2026-11-02 {end},completed,n2\n"
            for i in range(3)
        )
        journals.append(books(tmp_path / name, "--usd-per-hour", "0.01", jobs=small))
    rows = [re.split(r"\s{2,}", line.strip()) for line in asked("diff", *journals).splitlines()]
    told = {row[0]: row[1:] for row in rows}
    assert told["queue wait, mean and quantiles"] == ["1m", "1m", "no difference"]
    assert not any(title.startswith(("queue wait, p", "jobs failed")) for title in told)
    assert "submit to end, p99" not in told
    assert told["submit to end, longest"] == ["4h", "3h", "-1h"]
    before, after, change = (float(text.replace("$", "")) for text in told["paid"][:3])
    assert after - before == pytest.approx(change, abs=1e-9)
    assert change != 0
    document_of = json.loads(asked("diff", *journals, "--json"))
    assert {row["key"] for row in document_of["figures"]} >= {"wait_p99", "jobs_failed"}


def test_nodes_that_nobody_lists_are_said_once(tmp_path: Path):
    """In the answer, or beside it."""
    (tmp_path / "jobs.csv").write_text(JOBS)
    journal = str(tmp_path / "fleet.sqlite")
    asked("import", "csv", str(tmp_path / "jobs.csv"), "-j", journal)
    for gpus in ("2", "64"):
        ran = tidemill("fit", journal, "--team", "nlp", "--gpus", gpus)
        assert (ran.out + ran.err).count("listed by no source") == 1, gpus


def test_a_difference_says_that_an_amount_is_a_bound_for_want_of_a_price(tmp_path: Path):
    """All jobs are over, and their efficiency is assumed: hours without a price are the reason."""
    journal = books(tmp_path, "--usd-per-hour", "H100=2", *ASSUMED)
    ran = tidemill("diff", journal, journal)
    assert ran.code == 0, ran.err
    assert re.search(r"^ paid +≥ \$", ran.out, re.MULTILINE)
    assert "or some hours have no price" in " ".join(ran.err.split())


def test_after_a_commitment_changed_every_answer_names_the_one_of_then(tmp_path: Path):
    """`resA` until noon, `resB` from then: what is, is of `resB`; what was idle, of both."""
    (tmp_path / "prices.csv").write_text(
        "type,commitment,start,end,usd_per_gpu_hour\n"
        "A100,on-demand,,,1\n"
        "H100,resA,,2026-11-02 12:00,2\nH100,resB,2026-11-02 12:00,,3\n"
    )
    waiting = "d,dan,nlp,16,2026-11-02 13:00,,,pending,\n"
    journal = books(tmp_path, "--prices", str(tmp_path / "prices.csv"), jobs=JOBS + waiting,
                    nodes=NODES.replace(",instance_type", "").replace(",p4d.24xlarge", "")
                    .replace(",p5.48xlarge", ""))  # fmt: skip
    fit = ("fit", "--gpus", "16", "--kind", "H100", "--team", "nlp")
    for words in (("why", "d"), ("fleet", "--nodes"), fit):
        now = asked(*words, "-j", journal)
        assert "(resA)" not in now
        assert "(resB)" in now or words == fit
    said = " ".join(asked("ledger", journal, "--bucket", "no_demand", "--by", "contract").split())
    first, second = re.findall(r"H100 x8 \(res[AB]\) [\d.]+ \$(\d+)", said)
    advice = " ".join(asked("ledger", journal).split())
    assert f"node group `H100 x8 (resA)` ${first}" in advice
    assert f"node group `H100 x8 (resB)` ${second}" in advice


def test_a_bucket_that_nobody_measured_is_unknown_by_itself_as_in_the_ledger(tmp_path: Path):
    """`--bucket` printed 0.000 where the ledger lists the line as unknown."""
    ran = tidemill("ledger", books(tmp_path), "--bucket", "not_ready")
    assert re.search(r"total +unknown +unknown", ran.out)
    assert "unknown rather than zero: " in " ".join(ran.err.split())
