"""List prices: what the catalogue says that an instance type costs on demand. An assumption."""

from tidemill.live.history.rows import SeenNode
from tidemill.live.prices import labels
from tidemill.live.prices.rules import UNKNOWN, Price, PriceRule
from tidemill.model.states import Terms
from tidemill.units.catalogue.book import Catalogue

SOURCE = "list price, assumed"
SPOT_SOURCE = "on-demand list price, assumed (spot costs less)"


def rule() -> PriceRule:
    """The price of a node whose label says an instance type that the catalogue has."""
    boxes = Catalogue().boxes

    def priced(node: SeenNode) -> Price:
        box = boxes.get(labels.plain(labels.instance_type(node)))
        if box is None or box.usd_micro_per_hour is None:
            return UNKNOWN
        terms = labels.terms(node)
        source = SPOT_SOURCE if terms == Terms.SPOT.value else SOURCE
        return Price(round(box.usd_micro_per_hour / node.gpus), source, terms)

    return priced
