"""Prices of machines: price files, bills, list prices, flat rates; what none says is unknown."""

from pathlib import Path

import pytest

from tests.live.history.test_history import EPOCH_MS, attempts
from tidemill.live.history.events import build
from tidemill.live.history.rows import SeenNode
from tidemill.live.prices import files, labels, listed, matching, rules
from tidemill.live.prices.rules import Price, PriceRule
from tidemill.model.errors import SpecError
from tidemill.model.rows import Contract
from tidemill.units.catalogue.book import Catalogue

DAY_MS = 86_400_000
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
    return matching.rule_of(found.lines, WINDOW, found.source)


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


def test_prices_that_follow_each_other_are_weighed_by_time(tmp_path: Path):
    """Four of ten days at $2 and six at $3 are $2.60 an hour."""
    price_of = rule(
        tmp_path, "type,from,until,price\nh100,,1780345600,2\nh100,1780345600,,3\n"
    )  # four days after the beginning
    assert price_of(node()).usd_micro == 2_600_000


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
    """By hand: i-1 cost $64 in two hours, i-2 $120 (with its licence) in two; both together $46."""
    price_of = rule(tmp_path, BILL)
    first = price_of(node("a", id="aws:///us-1a/i-1"))
    assert first == Price(4 * USD, "`prices.csv` (billed, FOCUS)", "reserved", "plan-1")
    assert price_of(node("n2"))[:3] == (7_500_000, "`prices.csv` (billed, FOCUS)", "on_demand")
    assert price_of(node("n3", type="p5.48xlarge", region="us")).usd_micro == 46 * USD // 8
    assert not price_of(node("n3", type="p5.48xlarge", region="eu")).is_known
    assert not price_of(node("n4")).is_known
    notes = files.read(tmp_path / "prices.csv", "UTC").notes
    assert [note.rsplit(": ")[-1] for note in notes] == ["1", "1", "1"]


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
        "B200 x8": "", "H100 x8 (0 CPUs, 0 MiB)": "list price, assumed", "H100 x8 (2)":
        "`prices.csv`",
    }  # fmt: skip
    assert not found["H100 x8"].is_priced
