"""Prices of machines: price files, bills, list prices, flat rates; what none says is unknown."""

from pathlib import Path

import pytest

from tests.live.history.test_history import EPOCH_MS, attempts, read
from tidemill.ledger.spans import Window
from tidemill.ledger.statement import Statement
from tidemill.live.csv import tables
from tidemill.live.history.events import History, build
from tidemill.live.history.rows import SeenNode
from tidemill.live.prices import files, labels, listed, matching, rules
from tidemill.live.prices.rules import Price, PriceRule
from tidemill.model.errors import SpecError
from tidemill.model.rows import UNPRICED, Contract
from tidemill.units.catalogue.book import Catalogue

HOUR_MS, DAY_MS = 3_600_000, 86_400_000
JUNE_MS = 1_780_272_000_000  # 2026-06-01, UTC
WINDOW = (EPOCH_MS, EPOCH_MS + 10 * DAY_MS)  # 2026-05-28 to 2026-06-07, UTC
USD = 1_000_000


def node(name: str = "n1", gpus: int = 8, gpu_type: str = "h100", **said: str) -> SeenNode:
    """A node; ``said``: labels by their short names."""
    keys = {"type": labels.INSTANCE_TYPE, "region": labels.REGION,
            "capacity": "karpenter.sh/capacity-type", "id": labels.PROVIDER_ID}  # fmt: skip
    told = tuple((keys[key], value) for key, value in said.items())
    return SeenNode(name=name, gpus=gpus, gpu_type=gpu_type, labels=told)


def rule(folder: Path, text: str) -> PriceRule:
    """The rule of a price file."""
    path = folder / "prices.csv"
    path.write_text(text)
    found = files.read(path, "UTC")
    return matching.rule_of(found.lines, WINDOW, found.source, is_bill=found.is_bill)


def test_the_line_that_says_most_prices_a_node(tmp_path: Path):
    """By name before instance type, before GPU type; an instance costs the same split over GPUs."""
    price_of = rule(
        tmp_path,
        "node,type,usd_per_gpu_hour,usd_per_instance_hour\n"
        "n1,,9,\n,p5.48xlarge,,40\n,NVIDIA-H100-80GB-HBM3,3,\n",
    )
    assert price_of(node("n1", type="p5.48xlarge")).usd_micro == 9 * USD
    assert price_of(node("n2", type="p5.48xlarge")).usd_micro == 5 * USD
    assert price_of(node("n3")).usd_micro == 3 * USD
    assert not price_of(node("n4", gpu_type="a100")).is_known
    assert price_of(node("n2")).source == "`prices.csv`"


def test_commitments_and_regions_tell_lines_apart(tmp_path: Path):
    """A spot node takes the spot line; a reservation names its contract and says when it ends."""
    price_of = rule(
        tmp_path,
        "type,region,commitment,end,rate\n"
        "h100,us,on-demand,,4\nh100,us,spot,,1\nh100,eu,3y plan,2028-12-31,2\n",
    )
    assert price_of(node(region="us", capacity="spot"))[:3] == (USD, "`prices.csv`", "spot")
    assert price_of(node(region="us", capacity="on-demand")).usd_micro == 4 * USD
    found = price_of(node(region="eu"))
    assert (found.commitment, found.terms) == ("3y plan", "reserved")
    rows = attempts({"gpus": 8, "nodes": ["n1"], "start_ms": 0, "end_ms": DAY_MS})
    (contract,) = build(rows, [node(region="eu")], price_of).contracts
    assert contract.name == "H100 x8 (3y plan)"
    assert EPOCH_MS + contract.end_ms == 1_861_833_600_000  # 2028-12-31


def test_the_line_of_a_machine_prices_it_whatever_its_label_says(tmp_path: Path):
    """It is said to be spot and labelled on demand: whoever wrote the line meant this machine. A
    line that agrees goes first, and one of several machines is none of a machine alone.
    """
    table = "type,node,commitment,usd_per_instance_hour\n"
    of_type = "p4d.24xlarge,,on-demand,20\n"
    n1 = node(type="p4d.24xlarge", capacity="on-demand")
    found = rule(tmp_path, f"{table}{of_type},n1,spot,8\n")(n1)
    assert (found.usd_micro, found.terms) == (USD, "spot")
    agrees = rule(tmp_path, f"{table}{of_type},n1,spot,8\n,n1,on-demand,16\n")
    assert agrees(n1).usd_micro == 2 * USD
    assert rule(tmp_path, f"{table}{of_type},n*,spot,8\n")(n1).usd_micro == 20 * USD // 8


def test_lines_that_contradict_labels_or_are_of_no_node_are_named(tmp_path: Path):
    """The row and the machine; one that agrees says nothing, nor do names that are there."""
    path = tmp_path / "prices.csv"
    path.write_text("node,commitment,rate\nn1,spot,1\nn2,spot,1\nnosuch,,9\nn*,spot,1\nz*,,2\n")
    lines = files.read(path, "UTC").lines
    nodes = [node(capacity="on-demand"), node("n2", capacity="spot"), node("n3")]
    assert matching.unmet_nodes(lines, nodes) == ["nosuch", "z*"]
    (words,) = matching.said_against_labels(lines, nodes)
    assert words.startswith("row 2 says that node `n1` is spot, its label that it is on demand: ")


CHANGE_MS = 1_780_345_600_000  # four days after the beginning


def test_prices_that_follow_each_other_hold_one_after_the_other(tmp_path: Path):
    """$2 for four days, then $3: by hand to the micro-dollar, also over the change and by job."""
    price_of = rule(tmp_path, "type,from,until,price\nh100,,1780345600,2\nh100,1780345600,,3\n")
    found = price_of(node()).at(WINDOW[0])
    assert (found.usd_micro, [one[:3] for one in found.later]) == (
        2 * USD, [(CHANGE_MS, 3 * USD, "`prices.csv`")]
    )  # fmt: skip
    rows = attempts(
        {"job": "over", "gpus": 8, "nodes": ["n1"], "start_ms": 3 * DAY_MS, "end_ms": 6 * DAY_MS},
        {"job": "last", "gpus": 4, "nodes": ["n1"], "start_ms": 9 * DAY_MS, "end_ms": 10 * DAY_MS},
    )

    def history() -> History:
        return build(rows, [node()], price_of, *WINDOW)

    (contract,) = history().contracts
    assert [(one.from_ms, one.usd_micro_per_hour) for one in contract.prices] == [
        (0, 2 * USD), (4 * DAY_MS, 3 * USD)
    ]  # fmt: skip
    books = read(history())
    assert books.total().paid_usd_micro == 8 * 24 * (4 * 2 + 6 * 3) * USD
    by_job = {name: account.paid_usd_micro for name, account in books.by("job").items()}
    assert by_job["over"] == 8 * 24 * (1 * 2 + 2 * 3) * USD
    assert by_job["last"] == 4 * 24 * 3 * USD
    assert by_job["(nobody)"] == books.total().paid_usd_micro - by_job["over"] - by_job["last"]
    for start, end, usd in ((0, 4, 8 * 24 * 4 * 2), (4, 10, 8 * 24 * 6 * 3), (3, 5, 8 * 24 * 5)):
        window = read(history(), Window(start * DAY_MS, end * DAY_MS))
        assert window.total().paid_usd_micro == usd * USD, (start, end)
    days = read(history(), Window(bin_ms=DAY_MS)).by("time").values()
    assert [day.paid_usd_micro for day in days] == 4 * [8 * 24 * 2 * USD] + 6 * [8 * 24 * 3 * USD]


def by_contract(books: Statement) -> dict[str, tuple[int, int]]:
    """GPU-days and micro-dollars of each contract."""
    return {
        name: (account.paid_milli_ms // (1000 * DAY_MS), account.paid_usd_micro)
        for name, account in books.by("contract").items()
    }


@pytest.mark.parametrize("renewed", [1, 2])
def test_a_machine_that_changes_to_a_commitment_is_under_each_in_its_time(
    tmp_path: Path, renewed: int
):
    """On demand for four days, then under a plan, at another price or at the same; n2 is under the
    plan all along, and a job runs over the change in one piece.
    """
    change = CHANGE_MS // 1000
    price_of = rule(
        tmp_path,
        "node,commitment,from,until,price\n"
        f"n1,on-demand,,{change},2\nn1,3y plan,{change},,{renewed}\nn2,3y plan,,,{renewed}\n",
    )
    rows = attempts({"job": "over", "gpus": 8, "nodes": ["n1"], "start_ms": DAY_MS,
                     "end_ms": 9 * DAY_MS})  # fmt: skip
    history = build(rows, [node("n1"), node("n2")], price_of, *WINDOW)
    names = [(row.name, [one.name for one in row.later_prices or ()]) for row in history.contracts]
    assert ("H100 x8 (on demand)", ["H100 x8 (3y plan)"]) in names
    books = read(history)
    assert by_contract(books) == {
        "H100 x8 (on demand)": (8 * 4, 8 * 24 * 4 * 2 * USD),
        "H100 x8 (3y plan)": (8 * 16, 8 * 24 * 16 * renewed * USD),
    }
    total = books.total()
    assert sum(usd for _, usd in by_contract(books).values()) == total.paid_usd_micro
    assert sum(total.milli_ms) == total.paid_milli_ms
    assert books.by("job")["over"].paid_usd_micro == 8 * 24 * (3 * 2 + 5 * renewed) * USD
    assert books.world.jobs.attempt.item(0) == 1


def test_a_bill_says_when_a_machine_changed_to_a_plan(tmp_path: Path):
    """An hour on demand, two under a plan, one that nobody billed: it is where it was."""
    head, tail = BILL.partition("\n")[0], "us,,\n"
    hours = [f"2026-06-01T0{hour}:00:00Z" for hour in range(4)]
    bill = (
        f"{head}\nUsage,{hours[0]},{hours[1]},40,40,1,Hours,Standard,,,i-9,{tail}"
        f"Usage,{hours[1]},{hours[2]},0,24,1,Hours,Committed,plan-1,Used,i-9,{tail}"
        f"Usage,{hours[2]},{hours[3]},0,24,1,Hours,Committed,plan-1,Used,i-9,{tail}"
    )
    price_of = rule(tmp_path, bill)
    rows = attempts({"gpus": 8, "nodes": ["i-9"], "submit_ms": JUNE_MS - EPOCH_MS,
                     "start_ms": JUNE_MS - EPOCH_MS,
                     "end_ms": JUNE_MS - EPOCH_MS + 4 * HOUR_MS})  # fmt: skip
    books = read(build(rows, [node("i-9")], price_of, JUNE_MS, JUNE_MS + 4 * HOUR_MS))
    found = {name: (account.paid_milli_ms // (1000 * HOUR_MS), account.paid_usd_micro)
             for name, account in books.by("contract").items()}  # fmt: skip
    assert found == {"H100 x8 (on demand)": (8, 40 * USD), "H100 x8 (plan-1)": (24, 48 * USD)}
    notes = files.read(tmp_path / "prices.csv", "UTC").notes
    assert notes[-1].endswith("every hour costs what it was billed, and is of the contract of then")


def test_a_time_that_no_line_covers_has_no_price(tmp_path: Path):
    """Two days of ten have a price: dollars are of those, and nobody knows what the rest cost."""
    begins, ends = (CHANGE_MS - 2 * DAY_MS) // 1000, CHANGE_MS // 1000
    price_of = rule(tmp_path, f"type,from,until,price\nh100,{begins},{ends},2\n")
    rows = attempts({"gpus": 8, "nodes": ["n1"], "start_ms": 0, "end_ms": 10 * DAY_MS})
    account = read(build(rows, [node()], price_of, *WINDOW)).total()
    assert account.paid_usd_micro == 8 * 48 * 2 * USD
    assert account.unpriced_milli_ms == 8 * 8 * DAY_MS * 1000
    assert account.paid_milli_ms == 10 * 8 * DAY_MS * 1000


def test_a_line_that_says_more_holds_while_it_does(tmp_path: Path):
    """A price of one machine for a while, within a price of its type: each in its time."""
    start, end = CHANGE_MS // 1000, CHANGE_MS // 1000 + 86_400
    price_of = rule(tmp_path, f"type,node,from,until,price\nh100,,,,2\n,n1,{start},{end},5\n")
    found = price_of(node()).at(WINDOW[0])
    told = [(one.from_ms, one.usd_micro) for one in found.later]
    assert (found.usd_micro, told) == (
        2 * USD, [(CHANGE_MS, 5 * USD), (CHANGE_MS + DAY_MS, 2 * USD)]
    )  # fmt: skip
    assert not price_of(node("n2")).later


def test_two_prices_at_one_time_are_refused(tmp_path: Path):
    """Nobody can say which of them was paid; the message names both lines and what to do."""
    price_of = rule(tmp_path, "type,terms,price\nh100,spot,1\nh100,on-demand,4\n")
    with pytest.raises(SpecError, match="twice at one time: rows 2 and 3"):
        price_of(node())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("type,color\nh100,red\n", "no column with a price"),
        ("type,usd_per_gpu_hour,usd_per_instance_hour\nh100,,\n", "row 2 has no price"),
        ("type,usd_per_gpu_hour,usd_per_instance_hour\nh100,1,8\n", "row 2 has two prices"),
        ("type,price\nh100,-1\n", "below zero"),
        ("type,price\nh100,cheap\n", "`cheap` in row 2"),
        (
            "type,price,currency\nh100,1,USD\na100,2,eur\n",
            "has prices in EUR",
        ),
        ("BilledCost,BillingCurrency,PricingQuantity\n1,EUR,1\n", "billed in EUR"),
        ("BilledCost,PricingQuantity,PricingUnit\n1,1,GB\n", "no usage that is billed by time"),
    ],
)
def test_files_that_cannot_be_used_say_why(tmp_path: Path, text: str, words: str):
    """What was found, and what to do."""
    with pytest.raises(SpecError, match=words):
        rule(tmp_path, text)


BILL = """\
ChargeCategory,ChargePeriodStart,ChargePeriodEnd,BilledCost,EffectiveCost,PricingQuantity,\
PricingUnit,PricingCategory,CommitmentDiscountId,CommitmentDiscountStatus,ResourceId,RegionId,\
SkuPriceDetails,Tags
Usage,2026-06-01T00:00:00Z,2026-06-01T01:00:00Z,0,30,1,Hours,Committed,plan-1,Used,\
arn:aws:ec2:x:1:instance/i-1,us,"{""InstanceType"":""p5.48xlarge""}",
Usage,2026-06-01T01:00:00Z,2026-06-01T02:00:00Z,0,34,1,Hours,Committed,plan-1,Used,\
arn:aws:ec2:x:1:instance/i-1,us,"{""InstanceType"":""p5.48xlarge""}",
Usage,2026-06-01T00:00:00Z,2026-06-02T00:00:00Z,110,110,2,Hrs,Standard,,,i-2,us,\
"{""InstanceType"":""p5.48xlarge""}","{""Name"":""n2""}"
Usage,2026-06-01T00:00:00Z,2026-06-02T00:00:00Z,10,10,2,Hrs,Standard,,,i-2,us,,"{""Name"":""n2""}"
Usage,2026-06-01T00:00:00Z,2026-06-02T00:00:00Z,7,7,900,GB,Standard,,,i-2,us,,
Usage,2026-06-01T00:00:00Z,2026-06-01T01:00:00Z,0,99,1,Hours,Committed,plan-1,Unused,,us,,
Purchase,2026-06-01T00:00:00Z,2026-07-01T00:00:00Z,900,0,1,Months,,plan-1,,,,,
"""


def test_a_focus_bill_prices_machines_and_their_types(tmp_path: Path):
    """By hand: i-1 cost $30, then $34 an hour; i-2 $120 (with its licence) in two hours of a day.

    By type, each hour has its own: i-1 is there for an hour of it, i-2 for a twelfth at $60.
    """
    price_of, source = rule(tmp_path, BILL), "`prices.csv` (billed, FOCUS)"
    first = price_of(node("a", id="aws:///us-1a/i-1")).at(JUNE_MS)
    assert first[:4] == (30 * USD // 8, source, "reserved", "plan-1")
    assert tuple(one[:3] for one in first.later) == (
        (JUNE_MS + HOUR_MS, 34 * USD // 8, source), (JUNE_MS + 2 * HOUR_MS, UNPRICED, "")
    )  # fmt: skip
    assert price_of(node("n2")).at(JUNE_MS)[:3] == (7_500_000, source, "on_demand")
    kind = price_of(node("n3", type="p5.48xlarge", region="us")).at(JUNE_MS)
    rates = [round((usd + 60 / 12) / (1 + 1 / 12) * USD / 8) for usd in (30, 34)]
    told = [kind.usd_micro, *(one.usd_micro for one in kind.later)]
    assert told == [*rates, 7_500_000, UNPRICED]
    assert not price_of(node("n3", type="p5.48xlarge", region="eu")).is_known
    assert not price_of(node("n4")).is_known
    notes = files.read(tmp_path / "prices.csv", "UTC").notes
    assert [note.rsplit(": ")[-1] for note in notes[:-1]] == ["1", "1"]
    assert "billed for a part of their charge periods: `n2` (2 of 24 h)" in notes[-1]


def test_columns_of_unit_prices_are_enough(tmp_path: Path):
    """FOCUS without costs: the contracted price of an hour."""
    text = "ContractedUnitPrice,PricingQuantity,PricingUnit,x_InstanceType\n24,10,Hours,p5.48xlarge"
    assert rule(tmp_path, text)(node(type="p5.48xlarge")).usd_micro == 3 * USD


def test_list_prices_are_said_to_be_assumed():
    """As the catalogue has them, for a label that it knows; spot costs less, and that is said."""
    price_of = listed.rule()
    box = Catalogue().boxes["p5.48xlarge"]
    assert box.usd_micro_per_hour is not None
    found = price_of(node(type="p5.48xlarge"))
    assert found == Price(round(box.usd_micro_per_hour / 8), listed.SOURCE)
    assert price_of(node(type="p5.48xlarge", capacity="spot")).source == listed.SPOT_SOURCE
    assert price_of(node(gpu_type="a100", type="Standard_ND96asr_v4")).is_known
    assert not price_of(node()).is_known
    assert not price_of(node(type="my-own-server")).is_known


def test_the_first_rule_that_knows_a_node_prices_it(tmp_path: Path):
    """Nodes of one type and size under three prices are three contracts; the fourth has none."""
    by_file = rule(tmp_path, "node,price\nn1,9\n")
    price_of = rules.first_of([by_file, rules.flat({"B200": USD}), listed.rule()])
    nodes = [node("n1"), node("n2", type="p5.48xlarge"), node("n3"), node("n4", gpu_type="b200")]
    rows = attempts({"gpus": 8, "nodes": ["n1"], "start_ms": 0, "end_ms": DAY_MS})
    found: dict[str, Contract] = {row.name: row for row in build(rows, nodes, price_of).contracts}
    assert {name: row.price_source or "" for name, row in found.items() if row.is_priced} == {
        "B200 x8": "", "H100 x8 (2)": "list price, assumed", "H100 x8 (3)":
        "`prices.csv`",
    }  # fmt: skip
    assert not found["H100 x8"].is_priced


@pytest.mark.parametrize(
    ("column", "cell", "usd"),
    [
        ("price", "$2.50", 2.5), ("price", "2.50 USD", 2.5), ("price", "US$ 2.50", 2.5),
        ("price", "USD 2.50/h", 2.5), ("price", "$2.50 per hour", 2.5), ("price", '"2,50 $"', 2.5),
        ("price", '"$1,234.50"', 1234.5), ("price (USD)", "2.50", 2.5), ("Rate USD", "2.50", 2.5),
    ],
)  # fmt: skip
def test_dollars_may_be_named(tmp_path: Path, column: str, cell: str, usd: float):
    """In a cell, or in the header."""
    path = tmp_path / "prices.csv"
    path.write_text(f"node,{column}\ng1,{cell}\n")
    (line,) = files.read(path, "UTC").lines
    assert line.gpu_usd_micro == round(usd * 1_000_000)


@pytest.mark.parametrize(
    ("column", "cell", "said"),
    [
        ("price", "€2", "holds `€2` in row 2, a price that is not in USD"),
        ("price", "2.00 EUR", "holds `2.00 EUR` in row 2, a price that is not in USD"),
        ("price", "C$2", "holds `C$2` in row 2, a price that is not in USD"),
        ("price (EUR)", "2", "has prices in EUR (column `price (EUR)`)"),
        ("eur_per_hour", "2", "has prices in EUR (column `eur_per_hour`)"),
        ("price", "two", "holds `two` in row 2, which is no number of dollars"),
        ("price", "$2/gpu/h", "which is no number of dollars"),
        ("price", "-2", "holds `-2` in row 2, a price below zero"),
        ("price", "1e12", "a price above ten million dollars an hour"),
    ],
)
@pytest.mark.parametrize("of_nodes", [False, True])
def test_what_is_no_price_in_dollars_is_refused(
    tmp_path: Path, column: str, cell: str, said: str, of_nodes: bool
):
    """By price files and tables of nodes alike, with what to write."""
    path = tmp_path / "prices.csv"
    path.write_text(f"node,gpus,{column}\ng1,8,{cell}\n")
    with pytest.raises(SpecError) as refused:
        tables.read_nodes(path) if of_nodes else files.read(path, "UTC")
    assert said in refused.value.message
    assert refused.value.hint
    assert ("the books are in USD" in refused.value.hint) == ("USD" in said or "EUR" in said)


def test_a_price_of_a_named_node_whose_type_nobody_says(tmp_path: Path):
    """It holds: the line names the node. Of another type that is known it does not."""
    path = tmp_path / "prices.csv"
    path.write_text("node,type,usd_per_gpu_hour\ng1,H100,2.50\n")
    rule = matching.rule_of(files.read(path, "UTC").lines, (0, 1000), "`prices.csv`")
    assert rule(SeenNode(name="g1", gpus=8, gpu_type="")).usd_micro == 2_500_000
    assert rule(SeenNode(name="g1", gpus=8, gpu_type="A100")).usd_micro == UNPRICED


BOUGHT = """\
ChargeCategory,ChargePeriodStart,ChargePeriodEnd,EffectiveCost,PricingQuantity,PricingUnit,\
ResourceId,ResourceName,CommitmentDiscountId,PricingCategory,x_InstanceType
Usage,2026-11-01T00:00Z,2026-11-01T12:00Z,288,12,Hours,i-1,h1,,Standard,p5
Usage,2026-11-01T12:00Z,2026-11-02T00:00Z,192,12,Hours,i-1,h1,ri-1,Committed,p5
Usage,2026-11-01T06:00Z,2026-11-02T00:00Z,720,18,Hours,i-2,h2,,Dynamic,p5
"""


def test_a_machine_of_a_bill_has_no_price_where_it_was_not_billed(tmp_path: Path):
    """Not that of others of its type; one that the bill does not name has the mean of its type."""
    path = tmp_path / "focus.csv"
    path.write_text(BOUGHT)
    found = files.read(path, "UTC")
    day = (1_793_491_200_000, 1_793_577_600_000)
    rule = matching.rule_of(found.lines, day, found.source, is_bill=found.is_bill)

    def rates(name: str) -> list[int]:
        price = rule(SeenNode(name=name, gpus=8, gpu_type="H100", box="p5"))
        return [price.usd_micro, *(period.usd_micro for period in price.later)]

    assert rates("h1") == [UNPRICED, 3_000_000, 2_000_000, UNPRICED]
    assert rates("h2") == [UNPRICED, 5_000_000, UNPRICED]
    assert rates("h3") == [UNPRICED, 3_000_000, 4_000_000, 3_500_000, UNPRICED]
    assert "`h1` (on demand, ri-1): every hour costs what it was billed" in " ".join(found.notes)


def test_a_machine_that_a_bill_does_not_name_is_under_no_commitment_of_others(tmp_path: Path):
    """h1 is under `ri-1` from noon on, h2 is spot; of h3 nobody says how it was bought."""
    path = tmp_path / "focus.csv"
    path.write_text(BOUGHT)
    bill = files.read(path, "UTC")
    day = (1_793_491_200_000, 1_793_577_600_000)
    price_of = matching.rule_of(bill.lines, day, bill.source, is_bill=True)
    machines = [SeenNode(name=f"h{i}", gpus=8, gpu_type="H100", box="p5") for i in (1, 2, 3)]
    start_ms = day[0] - EPOCH_MS
    rows = attempts({"gpus": 8, "nodes": ["h3"], "submit_ms": start_ms, "start_ms": start_ms,
                     "end_ms": start_ms + DAY_MS})  # fmt: skip
    books = read(build(rows, machines, price_of, *day))
    found = {name: (account.paid_milli_ms // (1000 * HOUR_MS), account.paid_usd_micro)
             for name, account in books.by("contract").items()}  # fmt: skip
    assert found["p5 (ri-1)"] == (8 * 12, 192 * USD)
    assert found["p5"] == (8 * 24, (6 * 24 + 6 * 32 + 12 * 28) * USD)
