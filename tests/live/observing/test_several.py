"""Several clusters on one journal: names apart, clocks apart, and one that is down."""

import json
import re
import shutil
import time
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from msgspec.structs import replace
from typer.testing import CliRunner

from tests.conftest import ROOT
from tests.ledger.sums import amounts
from tests.live.kubernetes.test_expired import Forgetful, access
from tests.live.observing.test_observer import BEGIN_S, COMMANDS, TERMS, Cluster
from tests.rigs.prometheus.lying import lying
from tidemill import api
from tidemill.cli import contradicted, fleet_file
from tidemill.cli.main import app
from tidemill.ledger.buckets import ALLOCATED, Bucket
from tidemill.live.history.advance import SourceAnswer
from tidemill.live.history.rows import ATTEMPTS, SeenNode
from tidemill.live.kubernetes.watching.source import KubernetesSource
from tidemill.live.measured.pauses import PAUSES
from tidemill.live.observing.observer import AnswerTaken, Observer
from tidemill.live.observing.several import SeveralClusters, WatchedCluster
from tidemill.live.prices.rules import flat
from tidemill.model.claim_sharers import ClaimSharer
from tidemill.model.errors import BackendError, SpecError
from tidemill.model.rows import Queue, Role, Shape, Share

RUNNING: dict[str, Any] = {"id": 7, "gpus": 4, "submit": 10, "start": 20}


class Fleet:
    """Two clusters of scripts, and one journal."""

    def __init__(self, folder: Path, **more: Any) -> None:
        self.where = folder / "fleet.sqlite"
        self.both = [Cluster(_made(folder / name)) for name in ("east", "west")]
        told = {"lateness_ms": 30_000, "gap_ms": 600_000} | more
        self.clusters = [
            WatchedCluster("east", self.both[0].source, **told),
            WatchedCluster("west", self.both[1].source, lateness_ms=60_000),
        ]

    def at(self, seconds: int, east: list[dict[str, Any]], west: list[dict[str, Any]]) -> None:
        """It is so late in both, and these are their rows of sacct."""
        self.both[0].at(seconds, *east)
        self.both[1].at(seconds, *west)

    def ask(self, source: SeveralClusters | None = None) -> AnswerTaken:
        """Ask all once, as a process that knows nothing but the journal."""
        told, asked = BEGIN_S * 1000, source or SeveralClusters(self.clusters)
        with Observer.open(str(self.where), asked, TERMS, told) as observer:
            return observer.ask()

    def held_s(self, *by: str) -> Counter[tuple[str, ...]]:
        """GPU-seconds that were held, with paid = Σ buckets on the way."""
        books = api.read_statement(str(self.where))
        sums = amounts(books, "bucket", *by)
        assert sum(sums.values()) == books.total().paid_milli_ms
        names = {"job": books.world.job_names, "team": [q.name for q in books.world.queue_rows]}
        found = Counter[tuple[str, ...]]()
        for (bucket, *rest), amount in sums.items():
            if bucket in ALLOCATED:
                key = tuple(names[column][i] for column, i in zip(by, rest, strict=True))
                found[key] += amount // 1_000_000
        return found


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True)
    return folder


def test_equal_names_of_two_clusters_are_two_jobs_on_two_nodes(tmp_path: Path):
    """Job 7 on node n1 of both: told up to where the slower one has told, each booked once."""
    fleet = Fleet(tmp_path)
    fleet.at(100, [RUNNING], [RUNNING | {"gpus": 2}])
    taken = fleet.ask()
    assert (taken.jobs, taken.nodes, taken.told_ms, taken.lag_ms) == (2, 4, 40_000, 60_000)
    over = {"end": 150, "state": "COMPLETED"}
    fleet.at(300, [RUNNING | over], [RUNNING | {"gpus": 2}])
    assert fleet.ask().late.words() == []
    assert fleet.held_s("job") == {("east/7",): 4 * 130, ("west/7",): 2 * 220}


def test_a_cluster_that_is_down_holds_the_journal_until_the_gap_is_passed(tmp_path: Path):
    """Then the others go on; its own free time is not observed, theirs is; it comes back late."""
    fleet = Fleet(tmp_path)
    source = SeveralClusters(fleet.clusters)
    fleet.at(100, [RUNNING], [RUNNING])
    fleet.ask(source)
    (fleet.both[0].folder / "down").touch()
    fleet.at(400, [RUNNING], [RUNNING])
    taken = fleet.ask(source)
    assert (taken.told_ms, taken.running) == (30_000, 2), "as far as east has told"
    assert any(note.startswith("east does not answer: ") for note in taken.notes)
    fleet.at(1000, [RUNNING], [RUNNING | {"end": 700, "state": "FAILED"}])
    taken = fleet.ask(source)
    assert any("goes on without east" in note for note in taken.notes)
    assert (taken.told_ms, taken.running, taken.nodes) == (870_000, 1, 4)
    (fleet.both[0].folder / "down").unlink()
    fleet.at(1100, [RUNNING | {"end": 500, "state": "COMPLETED"}], [])
    taken = fleet.ask(source)
    assert (taken.late.ends, taken.late.gpu_ms) == (1, 4 * 440_000)
    assert fleet.held_s("job") == {("east/7",): 4 * 920, ("west/7",): 4 * 680}
    books = api.read_statement(str(fleet.where))
    assert amounts(books, "bucket")[(Bucket.NOT_OBSERVED,)] // 1_000_000 == (16 - 4) * 870
    assert not books.world.unseen, "east is watched again"


def test_what_nobody_asked_is_not_observed_whoever_answers_then(tmp_path: Path):
    """Both are asked again after an hour, by the same process or another: nobody watched either."""
    for is_same in (True, False):
        fleet = Fleet(tmp_path / str(is_same))
        source = SeveralClusters(fleet.clusters) if is_same else None
        fleet.at(100, [RUNNING], [RUNNING])
        fleet.ask(source)
        fleet.at(3_700, [RUNNING], [RUNNING])
        assert fleet.ask(source).is_gap
        sums = amounts(api.read_statement(str(fleet.where)), "bucket")
        assert sums[(Bucket.NOT_OBSERVED,)] // 1_000_000 == (32 - 8) * 3_600


def test_nobody_answers(tmp_path: Path):
    """Then there is no answer, and nothing is told."""
    fleet = Fleet(tmp_path)
    fleet.at(100, [RUNNING], [RUNNING])
    for one in fleet.both:
        (one.folder / "down").touch()
    with pytest.raises(BackendError):
        fleet.ask()
    with pytest.raises(BackendError):
        SeveralClusters(fleet.clusters).poll(0)


def test_a_garbled_answer_of_one_cluster_ends_nothing_there(tmp_path: Path):
    """A job that vanished from the other one is over."""
    fleet = Fleet(tmp_path)
    fleet.at(100, [RUNNING], [RUNNING])
    fleet.ask()
    fleet.at(200, [], [])
    with (fleet.both[0].folder / "sacct.out").open("a") as out:
        out.write("7\x1fgarbled\n")
    taken = fleet.ask()
    assert (taken.running, taken.late.unseen) == (1, 1)


def test_a_clock_that_is_ahead_is_set_back_by_what_was_declared(tmp_path: Path):
    """East's clock is five minutes ahead, and so are all of its times: one fleet, one time."""
    fleet = Fleet(tmp_path, ahead_ms=300_000)
    late = RUNNING | {"submit": 310, "start": 320}
    fleet.both[0].at(500, late | {"end": 420, "state": "COMPLETED"})
    fleet.both[1].at(200, RUNNING | {"end": 120, "state": "COMPLETED"})
    assert fleet.ask().told_ms == 140_000
    assert fleet.held_s("job") == {("east/7",): 400, ("west/7",): 400}
    frame = api.events_frame(str(fleet.where))
    ends = frame.filter(frame["kind"] == "job_finished")["at_ms"].to_list()
    assert ends == [120_000, 120_000]


def test_a_team_of_two_clusters_is_one(tmp_path: Path):
    """By the names that the file gives it; or each user is a team."""
    fleet = Fleet(tmp_path)
    fleet.at(100, [RUNNING | {"account": "ml"}], [RUNNING | {"account": "ml-dev"}])
    fleet.ask(SeveralClusters(fleet.clusters, {"ml": "research", "ml-dev": "research"}))
    assert fleet.held_s("team") == {("research",): 160}
    fleet.clusters[0] = fleet.clusters[0]._replace(is_team_user=True)
    fleet.where = tmp_path / "users.sqlite"
    fleet.ask()
    assert fleet.held_s("team") == {("ada",): 80, ("ml-dev",): 80}


class Said:
    """A source that always says the same."""

    name = "said"

    def __init__(self, answer: SourceAnswer, **more: Any) -> None:
        self.answer = answer._replace(**more)

    def now_ms(self) -> int:
        return self.answer.now_ms

    def poll(self, since_ms: int) -> SourceAnswer:
        return self.answer


def test_quotas_of_one_team_on_two_clusters_are_added(tmp_path: Path):
    """By GPU type; what has no limit in one has none."""
    fleet = Fleet(tmp_path)
    fleet.at(100, [RUNNING], [])
    answer = fleet.both[0].source.poll(BEGIN_S * 1000)
    large = Queue("a", (Share("H100", 8_000, 16_000), Share("A100", 1_000)))
    one = Said(answer, queues=[large])
    two = Said(answer, queues=[Queue("a", (Share("H100", 4_000, 4_000),)), Queue("b")])
    told = SeveralClusters([WatchedCluster("one", one), WatchedCluster("two", two)]).poll(0)
    shares = (Share("A100", 1_000), Share("H100", 12_000, 20_000))
    assert [*told.queues] == [Queue("a", shares), Queue("b")]


def test_who_shares_claims_is_kept_by_cluster_until_it_is_gone(tmp_path: Path):
    """Pods and jobs are called with their cluster; what the last look showed counts."""
    fleet = Fleet(tmp_path)
    for at, shown in ((100, [ClaimSharer("ml/x", "c", "7", is_waiting=True)]), (200, [])):
        fleet.at(at, [RUNNING], [])
        east = Said(fleet.both[0].source.poll(BEGIN_S * 1000), claim_sharers=shown)
        both = [WatchedCluster("east", east, lateness_ms=10_000), fleet.clusters[1]]
        fleet.ask(SeveralClusters(both))
        world, _ = api.open_world(str(fleet.where))
        assert world.claim_sharers == tuple(
            ClaimSharer("east/ml/x", "c", "east/7", is_waiting=True) for _ in shown
        )


def test_a_slurm_and_a_kubernetes_are_one_answer(tmp_path: Path):
    """Each by its own reader, in either order; frames of one meaning have one schema."""
    slurm = Cluster(_made(tmp_path / "hpc"))
    slurm.at(100, RUNNING)
    with (
        lying(Forgetful(is_in_stream=False).answer) as (address, _),
        KubernetesSource(access(address, tmp_path), timeout_s=20) as pods,
    ):
        both = [WatchedCluster("hpc", slurm.source), WatchedCluster("prod", pods)]
        alone = [one.source.poll(BEGIN_S * 1000) for one in both]
        told = [SeveralClusters(order).poll(BEGIN_S * 1000) for order in (both, both[::-1])]
    frames = [name for name in SourceAnswer._fields if isinstance(getattr(told[0], name),
                                                                  pl.DataFrame)]  # fmt: skip
    assert frames == ["attempts", "pauses"], "one that is new has a schema of its own"
    for answer in (*alone, *told):
        assert answer.pauses.schema == pl.Schema(PAUSES)
    for answer in told:
        assert answer.attempts.schema == pl.Schema(ATTEMPTS)
        assert {*answer.attempts["job"]} == {"hpc/7", "prod/ml/a"}
        assert {node.name for node in answer.nodes} == {"hpc/n1", "hpc/n2", "prod/n0"}
        assert set(answer.pods.values()) == {"prod/ml/a"}


def test_gangs_of_several_clusters_keep_their_own_requests(tmp_path: Path):
    """Shapes are numbered by each cluster from 0: a leader with workers, and four alike."""
    fleet = Fleet(tmp_path)
    fleet.at(100, [RUNNING], [RUNNING])
    made = list[WatchedCluster]()
    forms = {"east": (Role("leader", 1, 1), Role("worker", 3, 1)), "west": (Role("worker", 4, 1),)}
    for one, (name, roles) in zip(fleet.both, forms.items(), strict=True):
        told = one.source.poll(BEGIN_S * 1000)
        pods = [[0] * 4 if name == "west" else [0, 1, 1, 1]]
        gang = told.attempts.with_columns(
            pl.lit(0, pl.Int64).alias("shape"), pl.Series("roles", pods),
            pl.Series("nodes", [["n1"] * 4]),
        )  # fmt: skip
        made.append(WatchedCluster(name, Said(told, attempts=gang, shapes=[Shape("ml", roles)])))
    fleet.ask(SeveralClusters(made, {"ml": "research"}))
    world = api.read_statement(str(fleet.where)).world
    held = {
        name: [piece.role for piece in world.placements[j]] for name, j in world.job_number.items()
    }
    assert held == {"east/7": [0, 1], "west/7": [0]}
    of = {row.name: dict(row.labels)["tidemill/cluster"] for row in world.node_rows}
    assert {*of.values()} == {"east", "west"}
    assert all(name.startswith(f"{cluster}/") for name, cluster in of.items())
    for name, j in world.job_number.items():
        required = {dict(role.labels)["tidemill/cluster"] for role in world.shape_of(j).roles}
        assert required == {name.partition("/")[0]}
    assert fleet.held_s("team", "job") == {
        ("research", "east/7"): 80, ("research", "west/7"): 80}  # fmt: skip


class Before(SeveralClusters):
    """As clusters were told before their nodes had a label."""

    def poll(self, since_ms: int) -> SourceAnswer:
        """Without labels."""
        shown = super().poll(since_ms)
        nodes = [replace(node, labels=()) for node in shown.nodes]
        return shown._replace(attempts=shown.attempts.drop("cluster"), nodes=nodes)


def test_a_journal_whose_nodes_say_no_cluster_requires_none(tmp_path: Path):
    """What is new must be able to run on what is there."""
    fleet = Fleet(tmp_path)
    fleet.at(100, [RUNNING], [])
    fleet.ask(Before(fleet.clusters))
    fleet.at(200, [RUNNING], [RUNNING])
    fleet.ask()
    world = api.read_statement(str(fleet.where)).world
    assert "west/7" in world.job_number
    assert not [row for row in world.node_rows if "tidemill/cluster" in dict(row.labels)]
    assert not any(role.labels for shape in world.shape_rows for role in shape.roles)


# The file ---------------------------------------------------------------------------------------


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fleet:
    """Two clusters whose commands find them by SLURM_CONF, and a fleet.toml that names both."""
    fleet, bin_folder = Fleet(tmp_path), _made(tmp_path / "bin")
    for name in COMMANDS:
        script = bin_folder / name
        script.write_text(
            '#!/bin/sh\nat=$(dirname "$SLURM_CONF")\n[ -e "$at/down" ] && exit 1\n'
            f'cat "$at/{name}.out"\n'
        )
        script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{bin_folder}:/usr/bin:/bin")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "fleet.toml").write_text(
        f'[fleet]\nsince = "{BEGIN_S_DATE}"\nlateness = "30s"\n[prices]\nusd_per_hour = 2.5\n'
        '[[slurm]]\nname = "east"\nconf = "east/slurm.conf"\n'
        '[[slurm]]\nname = "west"\nconf = "west/slurm.conf"\n'
        '[assume.training]\nmfu = 0.4\n[teams]\nresearch = ["ml"]\n'
    )
    fleet.at(100, [RUNNING | {"account": "ml"}], [RUNNING])
    for name in ("east", "west"):
        (tmp_path / name / "slurm.conf").touch()
    return fleet


BEGIN_S_DATE = "2026-11-06T21:20:00Z"


def test_a_fleet_file_is_found_and_watched(desk: Fleet):
    """`tidemill observe` without more: one journal of both, with prices, teams and assumptions."""
    done = CliRunner().invoke(app, ["observe", "--once"])
    assert done.exit_code == 0, done.output
    assert "2 jobs: 2 running, 0 waiting; 4 nodes" in done.stdout
    assert desk.held_s("team") == {("research",): 4 * 50 + 4 * 50}
    account = api.read_statement(str(desk.where)).total()
    assert account.unpriced_milli_ms == 0
    assert account.milli_ms[Bucket.USEFUL] == 8 * 50 * 400_000


def test_every_source_is_asked_once_and_shown(desk: Fleet):
    """What answers, what does not and what to do; exit code 1 where one does not."""
    done = CliRunner().invoke(app, ["observe", "--check", "--json"])
    assert done.exit_code == 0, done.output
    told = {one["source"]: one for one in json.loads(done.stdout)}
    assert told["east"]["found"].startswith("2 nodes with 16 GPUs, 1 job in the last 10 minutes")
    (desk.both[1].folder / "down").touch()
    done = CliRunner().invoke(app, ["observe", "--check"])
    assert done.exit_code == 1
    rows = [line.split()[:3] for line in done.stdout.splitlines()]
    assert ["ok", "east", "Slurm"] in rows
    assert ["no", "west", "Slurm"] in rows


@pytest.mark.parametrize(
    ("ahead_s", "said"),
    [(-1, ""), (3, ""), (-3630, "1h behind ours"), (3690, "1h 1m ahead of ours")],
)
def test_a_clock_is_told_of_where_it_certainly_differs(desk: Fleet, ahead_s: int, said: str):
    """A few seconds are lost in asking: nobody can tell them."""
    desk.both[0].at(round(time.time()) + ahead_s - BEGIN_S)
    done = CliRunner().invoke(app, ["observe", "--check", "--json"])
    (found,) = [one["found"] for one in json.loads(done.stdout) if one["source"] == "east"]
    assert ("its clock is" in found) is bool(said)
    assert re.sub(" 0s| [0-9]+s", "", found).endswith(said or "in the last 10 minutes")


def test_no_password_of_an_address_is_printed(desk: Fleet):
    """An address with one in it is refused, by the check and by the observer, without it."""
    path = desk.where.with_name("fleet.toml")
    path.write_text(path.read_text() + '[[prometheus]]\nurl = "http://me:secret@p:9090"\n')
    for option in ("--check", "--once"):
        done = CliRunner().invoke(app, ["observe", option])
        assert done.exit_code != 0
        assert "secret" not in f"{done.output} {done.exception}"


@pytest.mark.parametrize("option", ["--config=fleet.toml", "--check", "--once", "--json"])
def test_a_file_and_a_command_are_not_given_together(desk: Fleet, option: str):
    """What would be passed over is refused."""
    done = CliRunner().invoke(app, ["observe", option, "slurm"])
    assert isinstance(done.exception, SpecError)
    assert "options before `slurm` are for a fleet.toml" in done.exception.message
    assert not desk.where.exists()


def test_the_example_is_read(tmp_path: Path):
    """Every table and key of it is known, and means what it says."""
    path = Path(shutil.copy(ROOT / "examples" / "observe" / "fleet.toml", tmp_path))
    told = fleet_file.load(path)
    assert told.names == ["hpc", "prod"]
    assert told.journal == str(tmp_path / "fleet.sqlite")
    assert told.teams["ml-dev"] == "research"
    assert told.assume == ["training.mfu=0.35", "training.checkpoint_interval=30m"]
    assert told.beside.listen == "127.0.0.1:8787"
    assert told.prometheus[0].cluster == "prod"


@pytest.mark.parametrize(
    ("text", "found", "hint"),
    [
        ('[[slurm]]\nnmae = "x"', "unknown field `nmae`", "did you mean `name`?"),
        ("[[slum]]", "unknown table or key `slum`", "did you mean `slurm`?"),
        ('every = "1m"\n[[slurm]]', "unknown table or key `every`", "under [fleet]"),
        ("[fleet]\nevery = 30\n[[slurm]]", "expected text in quotes; found 30", "change `every`"),
        ("[[slurm]]\n[[slurm]]", "two clusters are called `slurm`", "a name of its own"),
        ('[[slurm]]\nname = "a/b"', "a cluster is called `a/b`", "no slash"),
        ("[prices]\nlist_prices = true", "names no cluster", "add [[slurm]]"),
        ('[[slurm]]\nteam_by = "group"', "found `group`", "account or user"),
        ('[[slurm]]\n[[prometheus]]\nurl = "x"\ncluster = "slrm"', "no cluster is called `slrm`",
         "did you mean `slurm`?"),
        ('[[slurm]]\n[teams]\na = ["x"]\nb = ["x"]', "`x` is also `a`", "leave `x` with one"),
        ('[[slurm]]\n[teams]\na = "x"', "expected a list", 'a = ["ml"'),
        ("[[slurm]]\n[assume]\nmfu = 1", "expected a table", "[assume.training]"),
        ('[[slurm]]\n[prices.usd_per_hour]\nA100 = 1\nH100 = "2.80 EUR"',
         '`usd_per_hour.H100`: expected a number (USD an hour); found "2.80 EUR"',
         "usd_per_hour = 2.50 for all, or { H100 = 2.80, A100 = 1.60 }"),
        ('[[slurm]]\n[prices]\nusd_per_hour = "2,50"',
         '`usd_per_hour`: expected a number (USD an hour); found "2,50"', "H100 = 2.80"),
        ('[[contract]]\nname = "c"', "unknown table or key `contract`", "tidemill twin run"),
        ("[[slurm]", "line 1, column 8 is not TOML: expected", "examples/observe/fleet.toml"),
        ("slurm = 3", "`slurm` is no table", "write [[slurm]]"),
    ],
)  # fmt: skip
def test_what_a_file_cannot_mean_is_refused_kindly(
    tmp_path: Path, text: str, found: str, hint: str
):
    """What was found, and what to write."""
    path = tmp_path / "fleet.toml"
    path.write_text(text)
    with pytest.raises(SpecError) as refused:
        fleet_file.load(path)
    assert found in refused.value.message
    assert hint in refused.value.hint


def test_a_journal_of_other_clusters_is_refused(tmp_path: Path):
    """Names would change: a fleet with another cluster has another journal."""
    fleet = Fleet(tmp_path)
    fleet.at(100, [RUNNING], [RUNNING])
    fleet.ask()
    alone = SeveralClusters(fleet.clusters[:1])
    with pytest.raises(Exception, match="not that of an observer of slurm"):
        Observer.open(str(fleet.where), alone, TERMS._replace(price_of=flat({})))


@pytest.mark.parametrize("lateness", ["10s", "30s", "3m"])
def test_the_first_answer_tells_every_node(desk: Fleet, lateness: str):
    """Without `since`, with clocks known to the second and a cluster that is later than others."""
    path = desk.where.with_name("fleet.toml")
    since = f'since = "{BEGIN_S_DATE}"\n'
    own = f'name = "west"\nlateness = "{lateness}"\n'
    path.write_text(path.read_text().replace(since, "").replace('name = "west"\n', own))
    done = CliRunner().invoke(app, ["observe", "--once"])
    assert done.exit_code == 0, done.output
    assert "; 4 nodes; " in done.stdout


def test_a_first_answer_of_which_nothing_can_be_told_says_so(desk: Fleet):
    """One cluster is down from the beginning: not `0 nodes`, but that it is waited for."""
    (desk.both[1].folder / "down").touch()
    done = CliRunner().invoke(app, ["observe", "--once"])
    assert done.exit_code == 0, done.output
    assert "the sources show 2 nodes; nothing is told of them yet" in done.stdout
    assert "0 nodes" not in done.stdout
    assert "west does not answer" in done.output


def test_a_check_reads_all_that_the_file_names(desk: Fleet):
    """Zone, lengths, prices, assumptions and spares that cannot be: each in a row, by its key."""
    path = desk.where.with_name("fleet.toml")
    good = path.read_text().replace(
        'lateness = "30s"', 'lateness = "30s"\nspares = ["east/n2", "west/n*@2026-11-01.."]'
    )
    path.write_text(good)
    done = CliRunner().invoke(app, ["observe", "--check", "--json"])
    assert done.exit_code == 0, done.output
    told = {one["kind"]: one for one in json.loads(done.stdout)}
    assert told["prices"]["found"] == "4 nodes with a price, 0 without"
    assert told["spares, maintenance"]["found"] == "3 nodes kept as spares, 0 with maintenance"
    assert told["assumptions"]["found"] == "training.mfu=0.4, where nothing is measured"
    bad = good.replace('"30s"', '"soon"\nzone = "Berlin"').replace("2.5", "-2.5")
    path.write_text(bad.replace("0.4", "1.4").replace("east/n2", "east/n9"))
    done = CliRunner().invoke(app, ["observe", "--check", "--json"])
    assert done.exit_code == 1
    refused = {one["kind"]: one["found"] for one in json.loads(done.stdout) if not one["is_ok"]}
    assert refused["zone, since"].startswith("`zone` of [fleet] is `Berlin`, which is no time zone")
    assert refused["every, lateness, gap, keep"].startswith("`lateness` is `soon`")
    assert refused["prices"].startswith("`usd_per_hour` of [prices] is `-2.5`, which is no price")
    assert refused["assumptions"].startswith("[assume] is `training.mfu=1.4`")
    assert "--" not in " ".join(refused.values()), "a file has keys, not options"


def test_a_check_names_what_no_node_has_and_files_that_are_missing(desk: Fleet, tmp_path: Path):
    """A price of a GPU type that is nowhere; a slurm.conf that nobody has, without waiting."""
    path = desk.where.with_name("fleet.toml")
    good = path.read_text()
    path.write_text(good.replace("usd_per_hour = 2.5", "usd_per_hour = { h100 = 2.5, B300 = 9 }"))
    done = CliRunner().invoke(app, ["observe", "--check", "--json"])
    told = {one["kind"]: one for one in json.loads(done.stdout)}
    assert "`usd_per_hour` of [prices] prices `B300`, which no node has" in told["prices"]["found"]
    path.write_text(good.replace("east/slurm.conf", f"{tmp_path}/none.conf"))
    done = CliRunner().invoke(app, ["observe", "--check", "--json"])
    lost = [one["found"] for one in json.loads(done.stdout) if not one["is_ok"]]
    assert any("none.conf`: no such file" in found for found in lost)


def test_a_check_says_whose_journal_is_there(desk: Fleet):
    """One that these clusters go on with; one of another fleet is refused."""
    CliRunner().invoke(app, ["observe", "--once"])
    done = CliRunner().invoke(app, ["observe", "--check", "--json"])
    told = {one["kind"]: one for one in json.loads(done.stdout)}
    assert told["journal"]["found"].endswith("events, to be gone on with")
    path = desk.where.with_name("fleet.toml")
    path.write_text(path.read_text().replace('"west"', '"north"'))
    done = CliRunner().invoke(app, ["observe", "--check", "--json"])
    told = {one["kind"]: one for one in json.loads(done.stdout)}
    assert (done.exit_code, told["journal"]["is_ok"]) == (1, False)


def test_spares_of_a_file_are_kept_free_by_design(desk: Fleet):
    """`spares` and `maintenance` under [fleet], by the names of the books."""
    path = desk.where.with_name("fleet.toml")
    more = (
        'lateness = "30s"\nspares = ["west/n2"]\n'
        'maintenance = ["east/n2@2026-11-06T21:20:30Z..2026-11-07"]'
    )
    path.write_text(path.read_text().replace('lateness = "30s"', more))
    done = CliRunner().invoke(app, ["observe", "--once"])
    assert done.exit_code == 0, done.output
    sums = amounts(api.read_statement(str(desk.where)), "bucket")
    assert sums[(Bucket.BY_DESIGN,)] == 8 * 70 * 1_000_000
    assert sums[(Bucket.CORDONED,)] == 8 * 40 * 1_000_000


def test_what_a_file_says_wrong_is_named_by_its_key(desk: Fleet):
    """Not by an option that nobody typed."""
    path = desk.where.with_name("fleet.toml")
    path.write_text(path.read_text().replace("mfu = 0.4", "mfu = 7"))
    done = CliRunner().invoke(app, ["observe", "--once"])
    assert isinstance(done.exception, SpecError)
    assert done.exception.message == (
        "`fleet.toml`: [assume] is `training.mfu=7`, which is no share of the time"
    )


def test_a_machine_that_two_clusters_list_is_said():
    """By its host name, whatever domain or capitals: both are booked, and the doctor says it."""
    nothing = SourceAnswer(pl.DataFrame(schema=ATTEMPTS), [], 0)
    one = Said(nothing, nodes=[SeenNode(name="gpu1", gpus=8, gpu_type="H100"),
                         SeenNode(name="cpu1", gpus=0, gpu_type="")])  # fmt: skip
    two = Said(nothing, nodes=[SeenNode(name="GPU1.example.com", gpus=4, gpu_type="H100"),
                         SeenNode(name="gpu2", gpus=8, gpu_type="H100"),
                         SeenNode(name="cpu1", gpus=0, gpu_type="")])  # fmt: skip
    told = SeveralClusters([WatchedCluster("slurm", one), WatchedCluster("kube", two)]).poll(0)
    (found,) = told.against
    assert (found.sort, found.name, found.source) == ("listed_twice", "gpu1", "slurm, kube")
    assert found.says == "listed by slurm with 8 GPUs and by kube with 4 GPUs: both are booked"
    (words,) = contradicted.words(told.against)
    assert "1 node: `gpu1`: listed by slurm with 8 GPUs and by kube" in words.found
    assert "it is counted twice" in words.so
    alone = SeveralClusters([WatchedCluster("slurm", one)]).poll(0)
    assert alone.against == []


def test_the_observer_says_it_once_and_keeps_it(tmp_path: Path):
    """Both clusters of the fleet have a node of one name: said at the first look, and kept."""
    fleet = Fleet(tmp_path)
    fleet.at(100, [RUNNING], [RUNNING])
    assert any("listed by east with" in note for note in fleet.ask().notes)
    fleet.at(200, [RUNNING], [RUNNING])
    assert not any("listed by east" in note for note in fleet.ask().notes)
    done = CliRunner().invoke(app, ["doctor", str(fleet.where), "--json"])
    assert "nodes of one name in several clusters" in done.output
