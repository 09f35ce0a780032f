"""What happens to nodes between two questions is booked when the watch told it."""

from typing import Any

import pytest

from tests.ledger.sums import amounts
from tests.live.history.test_advance import Observer
from tests.live.kubernetes.made import BEGIN_MS, Object, moment, node
from tidemill.ledger.buckets import Bucket
from tidemill.live.history.advance import SourceAnswer
from tidemill.live.kubernetes.api.client import WatchedChange
from tidemill.live.kubernetes.nodes import UNSCHEDULABLE
from tidemill.live.kubernetes.translate import translate
from tidemill.live.kubernetes.watching import kinds
from tidemill.live.kubernetes.watching.kind_copy import KindCopy
from tidemill.live.kubernetes.watching.mirror import ShownObjects
from tidemill.model import events as ev
from tidemill.model.states import NodeState

LATENESS = 60


class WatchedNode:
    """One node that is listed at second 0 and watched, and a journal that is told of it."""

    def __init__(self, **rest: Any) -> None:
        self.now = 0
        self.observer = Observer(BEGIN_MS)
        self._copy = KindCopy(kinds.NODES, lambda: BEGIN_MS + 1000 * self.now + 400)
        self._copy.listed([node("n0", at=0, **rest)], set())

    def told(self, at: int, how: str = "MODIFIED", **rest: Any) -> None:
        """The watch tells of the node at a second."""
        self.now = at
        self._copy.changed(WatchedChange(how, node("n0", at=at, **rest)))

    def look(self, at: int) -> None:
        """The source is asked at a second, and the journal told up to a minute before."""
        self.now, until_ms = at, BEGIN_MS + 1000 * (at - LATENESS)
        told_ms = BEGIN_MS + self.observer.world.now_ms
        self._copy.forget(told_ms, set())
        shown = ShownObjects({("", "Node"): self._copy.shown()}, [], 0, ())
        past = translate(shown, looks_back=False)
        answer = SourceAnswer(past.attempts, past.nodes, BEGIN_MS + 1000 * at, shapes=past.shapes)
        self.observer.take(answer, until_ms)

    def moves(self) -> list[tuple[int, str, str]]:
        """Seconds, nodes and the states that they came to."""
        names = [row.name for row in self.observer.world.node_rows]
        return [(one.at_ms // 1000, names[one.node], NodeState(one.to).name)
                for one in self.observer.journal.read()
                if isinstance(one, ev.NodeMoved) and one.at_ms]  # fmt: skip


def cordon(at: int) -> Object:
    """What is different on a node that is cordoned at a second."""
    taint = {"key": UNSCHEDULABLE, "effect": "NoSchedule", "timeAdded": moment(at)}
    return {"unschedulable": True, "taints": [taint]}


def looks(watched: WatchedNode, *times: int) -> None:
    """The source is asked at these seconds."""
    for at in times:
        watched.look(at)


def test_a_cordon_ends_when_the_watch_tells_it():
    """Cordoned for 300 seconds, asked every 30: booked from the taint's time to the word of it."""
    watched = WatchedNode()
    looks(watched, 70, 100)
    watched.told(110, **cordon(110))
    looks(watched, *range(130, 410, 30))
    watched.told(411)
    looks(watched, *range(430, 550, 30))
    assert watched.moves() == [(110, "n0", "CORDONED"), (411, "n0", "READY")]
    sums = amounts(watched.observer.books(), "bucket")
    assert sums[Bucket.CORDONED,] == 301 * 8 * 1000 * 1000


def test_a_cordon_between_two_questions_is_booked():
    """Three cordons that no question sees, one of them under a heartbeat."""
    watched = WatchedNode()
    watched.look(70)
    watched.told(72, **cordon(72))
    watched.told(75, **cordon(72))
    watched.told(78)
    watched.told(80, **cordon(80))
    watched.told(90)
    watched.look(100)
    watched.told(105, **cordon(105))
    watched.told(120)
    looks(watched, 130, 160, 190)
    assert watched.moves() == [
        (72, "n0", "CORDONED"), (78, "n0", "READY"), (80, "n0", "CORDONED"), (90, "n0", "READY"),
        (105, "n0", "CORDONED"), (120, "n0", "READY"),
    ]  # fmt: skip


def test_a_node_that_was_out_when_it_was_first_seen_is_back_when_told():
    """Its taint has no time; and it is not Ready afterwards, which says its times itself."""
    watched = WatchedNode(unschedulable=True)
    watched.look(70)
    watched.told(85)
    watched.told(105, ready=False, turned=100)
    looks(watched, 100, 130)
    watched.told(145, turned=140)
    looks(watched, 160, 190, 220)
    assert watched.moves() == [(85, "n0", "READY"), (100, "n0", "UNHEALTHY"), (140, "n0", "READY")]


def test_a_device_plugin_that_ends_makes_a_node_unhealthy_from_then_on():
    """No condition says when it stopped to advertise GPUs."""
    watched = WatchedNode()
    watched.look(70)
    watched.told(85, amounts={"nvidia.com/gpu": "0"}, capacity={"nvidia.com/gpu": "8"})
    looks(watched, 100, 130)
    watched.told(131)
    looks(watched, 160, 200)
    assert watched.moves() == [(85, "n0", "UNHEALTHY"), (131, "n0", "READY")]


@pytest.mark.parametrize("looked", [(100, 130, 160), (160,)])
def test_a_resize_is_booked_when_the_watch_tells_it(looked: tuple[int, ...]):
    """From 4 GPUs to 8 at second 93: paid so to the second, however often it is asked."""
    watched = WatchedNode(gpus=4)
    watched.look(70)
    watched.told(93, gpus=8)
    looks(watched, *looked)
    assert watched.moves() == [
        (93, "n0", "GONE"), (93, "n0#2", "BOOTING"), (93, "n0#2", "READY"),
    ]  # fmt: skip
    paid = watched.observer.books().total().paid_milli_ms // 1_000_000
    assert paid == 4 * 93 + 8 * 7


def test_a_node_is_paid_until_the_watch_tells_that_it_is_gone():
    """Deleted at second 93, and asked a second later."""
    watched = WatchedNode()
    watched.look(70)
    watched.told(93, how="DELETED")
    looks(watched, 94, 124, 160, 190)
    assert watched.moves() == [(93, "n0", "GONE")]
    assert watched.observer.books().total().paid_milli_ms // 1_000_000 == 8 * 93
