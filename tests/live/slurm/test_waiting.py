"""Every reason of Slurm that a real cluster can be brought to say, as `why` explains it.

Jobs of ``tests/rigs/slurm/waiting.py`` and of the story: the layer that owns the wait, the limit as
evidence, and the command that shows it, which is run.
"""

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from tests.cli.shell import tidemill
from tests.live.slurm.conftest import Played
from tests.rigs.slurm import waiting
from tests.rigs.slurm.story import STORY
from tests.rigs.slurm.waiting import WAITING, Waits
from tidemill.explain import commands
from tidemill.live.observing.observer import Observer, ObserverTerms
from tidemill.live.prices.rules import flat
from tidemill.live.slurm import evidence, limits, reasons, translate
from tidemill.live.slurm.evidence import LimitRules, WaitingJob
from tidemill.live.slurm.polling import SlurmSource
from tidemill.live.slurm.rows import (
    SlurmAssociation,
    SlurmPartition,
    SlurmQos,
    SlurmReservation,
)
from tidemill.model.reasons import Cause, Layer
from tidemill.model.rows import PARTITION, Role

READ_ONLY = {"squeue", "scontrol", "sacctmgr", "sinfo"}


class Explained:
    """The rig's waiting jobs, and what a journal that observed them says."""

    def __init__(self, rig: Played, journal: Path) -> None:
        self.rig, self.journal = rig.cluster, str(journal)
        self.ids = {**rig.ids, **waiting.play(rig.cluster, rig.ids)}
        source = SlurmSource(timeout_s=60, environment=rig.cluster.environment)
        terms = ObserverTerms(flat({"": 2_000_000}), lateness_ms=0, gap_ms=600_000)
        begins_ms = source.now_ms() - 3_600_000
        with Observer.open(self.journal, source, terms, begins_ms) as observer:
            observer.ask()
        told = json.loads(tidemill("pending", "--json", "--limit", "0", "-j", self.journal).out)
        self.reasons = {row["job"]: row["reason"] for row in told["waiting"]}

    def of(self, name: str) -> str:
        """What `pending` and `why` say that the scheduler says."""
        return self.reasons[str(self.ids[name])]

    def shown(self, name: str) -> str:
        """What the command prints that is named there, with single blanks."""
        arguments = shlex.split(self.of(name).partition("; to see it: ")[2])
        assert arguments[0] in READ_ONLY
        assert "update" not in arguments
        return " ".join(self.rig.run(*arguments).split())


@pytest.fixture(scope="module")
def explained(rig: Played, tmp_path_factory: pytest.TempPathFactory) -> Explained:
    """A real Slurm whose jobs wait for everything, observed once."""
    return Explained(rig, tmp_path_factory.mktemp("waiting") / "fleet.sqlite")


def owner(layer: int) -> str:
    return f"(owner: {Layer(layer).name.lower()})"


@pytest.mark.parametrize("job", WAITING, ids=lambda job: job.name or job.word)
def test_a_reason_is_explained_at_its_layer_and_its_command_shows_it(
    explained: Explained, job: Waits
):
    """Word, owner, and a command that changes nothing and prints the rule."""
    said = explained.of(job.name or job.word)
    assert said.startswith(f"{job.word}: ")
    assert owner(job.layer) in said
    assert job.shows in explained.shown(job.name or job.word)


@pytest.mark.parametrize("name", [
    job.name for job in STORY if job.state == "PENDING" and job.gpus
])  # fmt: skip
def test_what_the_story_waits_for_is_explained_too(explained: Explained, name: str):
    """Resources, Priority, Dependency, BeginTime, held, drained, limits of partitions."""
    [told] = [job for job in STORY if job.name == name]
    said = explained.of(name)
    # Slurm was seen to say either of the second in line, by which of its schedulers looked last
    words = ("Priority", "Resources") if name == "behind" else (told.reason,)
    assert said.startswith(words)
    own = 4 if name == "limited" else told.layer  # it requests two, and its account has one
    assert owner(own or 0) in said
    assert explained.shown(name)


def test_why_quotes_the_limit_beside_the_reason(explained: Explained):
    """`why` of one job: Slurm's word, the QOS with its column, and the command."""
    job = str(explained.ids["QOSMaxGRESPerUser"])
    [line] = [
        line
        for line in tidemill("why", job, "-j", explained.journal).out.splitlines()
        if line.startswith("its own scheduler says")
    ]
    assert line.endswith(
        "QOS `peruser` has MaxTRESPU=gres/gpu=1 (owner: workload);"
        " to see it: sacctmgr show qos peruser format=Name,MaxTRESPU"
    )


def test_every_line_of_slurm_that_why_prints_shows_its_evidence(explained: Explained):
    """Nodes by their names with their GPUs, who waits, the job; of one that never starts the limit;
    and what partitions and features nodes have.
    """
    rig, told = explained.rig, dict[str, str]()
    for job in (*explained.reasons,):
        printed = tidemill("why", job, "-j", explained.journal).out
        _, _, lines = printed.partition("commands that show it:\n")
        for line in (one.strip() for one in lines.splitlines()):
            if line.split()[0] in READ_ONLY and line not in told:
                told[line] = " ".join(rig.run(*shlex.split(line)).split())
    assert all(told.values()), told
    limited = str(explained.ids["limited"])
    answer = json.loads(tidemill("why", limited, "-j", explained.journal, "--json").out)["answer"]
    (fact,) = (one for one in answer["evidence"] if one["name"] == "limit")
    assert "the maximum quota of team `small` is 1" in fact["words"]
    shown = [told[one["line"]] for one in fact["shown_by"] if one["on"] == "slurm"]
    assert any("small|root||gres/gpu=1|" in one for one in shown), shown
    asked = Role(labels=((f"{PARTITION}gpu", ""),))
    (line,) = (one.line for one in commands.labels(asked) if one.on == "slurm")
    told[line] = " ".join(rig.run(*shlex.split(line)).split())
    for begins, words in {
        "sinfo -N -O NodeList:40,Partition:40": (" n1 gpu* rack0",),
        "sinfo -N -O NodeList:40,StateLong": (" n1 mixed gpu:h100:8 gpu:h100:", "MEMORY ALLOCMEM"),
        "squeue --states=PENDING": (limited,),
        f"scontrol show job {limited}": (f"JobId={limited} ", "gres/gpu=2"),
    }.items():
        (found,) = (text for line, text in told.items() if line.startswith(begins))
        assert all(word in found for word in words), found


# --- rules that no rig is needed for --------------------------------------------------------------

RULES = LimitRules(
    associations=(
        SlurmAssociation(account="physics", grp_tres="cpu=99,gres/gpu=12"),
        SlurmAssociation(account="optics", parent="physics"),
        SlurmAssociation(account="optics", user="ada", grp_tres="gres/gpu=2", max_jobs=3),
    ),
    qos=(
        SlurmQos(name="normal", priority=0, max_tres_per_user="gres/gpu=4"),
        SlurmQos(name="high", priority=100, preempt="normal"),
    ),
    partitions=(SlurmPartition(name="gpu", max_nodes=3, node_count=4),),
    reservations=(SlurmReservation(name="fix", node_list="n[1-2]", flags="MAINT",
                                   start_ms=10_000, end_ms=20_000),),
)  # fmt: skip
ADA = WaitingJob("ada", "optics", "normal", "gpu", gpus_requested=2, time_limit_ms=60_000)


def said(reason: str, job: WaitingJob = ADA, **more: Any) -> str:
    """The whole text of one reason."""
    found = evidence.by_rules(reasons.meaning(reason, **more), job, RULES, 5_000)
    return f"{evidence.words(found, job, RULES)} [{found.layer and found.layer.name}]"


def test_limits_of_a_user_and_of_the_accounts_above_are_named():
    """Slurm does not say which one is reached: all that hold are."""
    found = said("AssocGrpGRES")
    assert "user `ada` in account `optics` has GrpTRES=gres/gpu=2;" in found
    assert "account `physics` has GrpTRES=gres/gpu=12;" in found
    assert found.endswith("[SCHEDULING]")
    assert "MaxJobs=3;" in said("AssocMaxJobsLimit")


def test_a_limit_below_the_request_is_a_matter_of_the_workload():
    """Two GPUs of four wait for others of the user; five never start."""
    assert said("QOSMaxGRESPerUser").endswith("[SCHEDULING]")
    assert said("QOSMaxGRESPerUser", ADA._replace(gpus_requested=5)).endswith("[WORKLOAD]")


def test_who_goes_first_and_who_is_preempted_is_said():
    """Priorities and preemption of QOS bear on jobs that wait in line."""
    found = said("Priority")
    assert "QOS `high` goes before its QOS `normal` (Priority=0)" in found
    assert "jobs of QOS high may preempt those of `normal`" in found
    assert "may preempt jobs of QOS normal" in said("Resources", ADA._replace(qos="high"))


def test_a_node_is_busy_or_kept_for_a_reservation():
    """By the reservation's time and the job's limit; the same word of Slurm's for both."""
    word: dict[str, Any] = {"required": "n2", "out": frozenset[str]()}
    assert said("ReqNodeNotAvail", **word).endswith("[PROVISIONING]")
    brief = ADA._replace(time_limit_ms=1_000)
    assert "other jobs fill them" in said("ReqNodeNotAvail", brief, **word)


def test_what_was_not_told_is_not_made_up():
    """Without a QOS, a partition or rules: the word, and the job to look at."""
    found = evidence.words(reasons.meaning("QOSMaxGRESPerUser"), WaitingJob(), LimitRules())
    assert found.endswith("GPUs (GRES); to see it: scontrol show job JOBID")


def test_a_sentence_in_place_of_a_word_is_known():
    """squeue and scontrol print one for two of them; JSON has the word."""
    sentence = "Job's account not permitted to use this partition (theirs allows small not me)"
    for one in (sentence, sentence.replace(" ", "_")):
        assert reasons.meaning(one).layer == Layer.WORKLOAD
    assert reasons.meaning(sentence).words == reasons.meaning("AccountNotAllowed").words


def test_every_limit_of_slurms_has_a_column():
    """Each word of a limit names what `sacctmgr` shows it in, or no limit at all."""
    found = reasons.meaning("QOSMaxJobsPerUserLimit").limit
    assert found == limits.LimitNamed(
        is_of_qos=True, column="MaxJobsPU", field="max_jobs_per_user", tres=None
    )
    assert reasons.meaning("Priority").limit is None
    assert reasons.meaning("AssocGrpGRES").cause is Cause.OVER_LIMIT


def test_nodes_that_are_said_to_be_down_and_are_up_are_no_matter_of_provisioning():
    """22.05 says *DOWN, DRAINED or reserved* also of nodes that other jobs fill."""
    down = reasons.NODES_DOWN
    up, out = frozenset[str](), frozenset({"n7"})
    told: list[dict[str, Any]] = [{"required": "n[7-8]"}, {"usable": "n[7-8]"}]
    for more in told:
        assert said("Resources", text=down, out=up, **more).endswith("[SCHEDULING]")
        assert "its nodes are up" in said("Resources", text=down, out=up, **more)
        assert said("Resources", text=down, out=out, **more).endswith("[PROVISIONING]")
    assert said("Resources", text=down, out=up).endswith("[PROVISIONING]")
    kept = said("Resources", text=down, required="n2", out=up)
    assert "reservation of a node that it requests by name (`fix`" in kept


def test_a_reservation_of_all_nodes_of_a_partition_is_named():
    """A job that names no node waits for it all the same; of some nodes others may be free."""
    word = "ReqNodeNotAvail, May be reserved for other job"
    up = frozenset[str]()
    assert "all nodes of its partition (`fix`" in said(word, usable="n[1-2]", out=up)
    some = said(word, usable="n[1-3]", out=up)
    assert "kept for a job that goes first" in some
    assert "to see it: scontrol show node n[1-3]" in some
    assert "to see it: scontrol show job" in said(word, out=up)


def test_only_nodes_that_a_job_names_are_called_so():
    """`UnavailableNodes` are Slurm's words: the job may have named none."""
    word = "ReqNodeNotAvail, UnavailableNodes:n8"
    assert "the nodes that Slurm names are up" in said(word, out=frozenset({"n7"}))
    assert "a node that it may use is down" in said(word, out=frozenset({"n8"}))
    named = said(word, required="n8", out=frozenset({"n8"}))
    assert "a node that it requests is down" in named


def test_partitions_of_a_job_say_which_nodes_it_may_use():
    """Those of all that it was submitted to."""
    rows = (SlurmPartition(name="a", nodes="n[1-2]"), SlurmPartition(name="b", nodes="n3"),
            SlurmPartition(name="c", nodes="n4"))  # fmt: skip
    assert evidence.usable(ADA._replace(partition="a,b"), rows) == "n[1-2],n3"
    assert evidence.usable(ADA, rows) is None


def test_who_was_requeued_and_held_is_no_demand_however_it_is_written(tmp_path: Path):
    """squeue prints blanks, scontrol underscores."""
    for word in ("job requeued in held state", "job_requeued_in_held_state"):
        row = f"7;PENDING;{word};2026-11-02T08:00:00;N/A;N/A;1;;ada;optics;gpu;gres:gpu:2;5:00"
        head = "JOBID;STATE;REASON;SUBMIT_TIME;START_TIME;END_TIME;NODES;NODELIST;USER;ACCOUNT;"
        where = tmp_path / "squeue.txt"
        where.write_text(f"{head}PARTITION;TRES_PER_NODE;TIME_LIMIT\n{row}\n")
        past = translate.read([where], "UTC")
        assert past.attempts["is_eligible"].to_list() == [False]
        assert past.attempts["reason"].str.contains("requeued, and held").all()
