"""An API server that is slow or lies: said in words, survived, nothing invented.

Lists are right until a fault begins, and watches are refused as expired, so that every question is
answered by a list: what a question finds is what the server says then.
"""

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.live.kubernetes.test_expired import Forgetful, access, made
from tests.rigs.kubernetes.wanted import node, pod
from tests.rigs.prometheus.lying import Asked, Told, lying
from tidemill.live.kubernetes.watching.source import KubernetesSource
from tidemill.live.observing.observer import AnswerTaken, Observer, ObserverTerms
from tidemill.live.prices.rules import flat
from tidemill.model.errors import BackendError

Fault = Callable[[str, Told], Told]
"""What becomes of a right answer to a path."""
TERMS = ObserverTerms(flat({"": 2_000_000}), lateness_ms=1_000, gap_ms=600_000)


def at(seconds: float) -> str:
    """Some seconds from now, as the API writes it."""
    return (datetime.now(UTC) + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def running(name: str, number: int, since_s: float = -60) -> dict[str, Any]:
    """A pod that runs on n0."""
    one = made(pod(name, 2), number)
    one["metadata"]["creationTimestamp"] = at(since_s)
    one["spec"]["nodeName"] = "n0"
    begun = {"type": "PodScheduled", "status": "True", "lastTransitionTime": at(since_s)}
    state = {"running": {"startedAt": at(since_s)}}
    one["status"] = {"phase": "Running", "conditions": [begun],
                     "containerStatuses": [{"name": "main", "state": state}]}  # fmt: skip
    return one


class Server(Forgetful):
    """Right, until somebody sets a fault."""

    def __init__(self) -> None:
        super().__init__(is_in_stream=False)
        self.objects["pods"] = [running("a", 1), running("b", 4)]
        self.objects["nodes"] = [made(node("n0"), 2)]
        self.fault: Fault | None = None

    def answer(self, number: int, asked: Asked) -> Told:
        """The right answer, and what the fault makes of it."""
        told = super().answer(number, asked)
        return told if self.fault is None else self.fault(urlsplit(asked.path).path, told)


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def ask(server: Server, tmp_path: Path) -> Iterator[Callable[[], AnswerTaken]]:
    """Ask once, of an observer that goes on."""
    with lying(server.answer) as (address, _):
        with (
            KubernetesSource(access(address, tmp_path), timeout_s=2) as source,
            Observer.open(str(tmp_path / "k.sqlite"), source, TERMS) as observer,
        ):
            yield observer.ask
        server.fault = None


def told_for_pods(change: Callable[[Told], Told]) -> Fault:
    return lambda path, told: change(told) if path.endswith("/pods") else told


FAULTS: dict[str, tuple[Fault, str]] = {
    "it accepts and never answers": (
        lambda _, told: told._replace(after_s=60), "no answer in time",
    ),
    "a byte now and then": (lambda _, told: told._replace(trickle_s=0.3), "no answer in time"),
    "a list that never comes": (
        told_for_pods(lambda told: told._replace(after_s=60)), "no answer in time",
    ),
    "a list cut off within its JSON": (
        told_for_pods(lambda told: told._replace(body=told.body[:-20])), "no JSON of the API",
    ),
    "a list cut off within its length": (
        told_for_pods(lambda told: told._replace(body=told.body[:-20], length=len(told.body))),
        "in the middle of an answer",
    ),
    "an error that calls itself 200": (
        told_for_pods(lambda told: told._replace(
            body=b'{"kind":"Status","status":"Failure","message":"etcdserver: leader changed"}')),
        "etcdserver: leader changed",
    ),
    "a page of a proxy": (
        lambda _, told: told._replace(body=b"<html>please log in</html>"), "no JSON of the API",
    ),
}  # fmt: skip


@pytest.mark.parametrize("way", FAULTS)
def test_a_server_in_trouble_ends_nothing(server: Server, ask: Callable[[], AnswerTaken], way: str):
    """What was asked and found is said within a bound; afterwards both pods still run."""
    assert ask().running == 2
    server.fault, words = FAULTS[way]
    begun_s = time.monotonic()
    with pytest.raises(BackendError, match=words):
        ask()
    assert time.monotonic() - begun_s < 25
    server.fault = None
    taken = ask()
    assert (taken.running, taken.late.unseen, taken.late.ends) == (2, 0, 0)


def test_an_object_without_its_fields_is_named_and_goes_on(
    server: Server, ask: Callable[[], AnswerTaken]
):
    """A pod that has another type where the API has an object: it is not taken for ended."""
    ask()
    server.objects["pods"][0] = {
        "metadata": server.objects["pods"][0]["metadata"], "spec": [], "status": 7,
    }  # fmt: skip
    taken = ask()
    assert taken.running == 2
    assert any("Pod ml/a" in note for note in taken.notes)


def test_objects_twice_and_in_another_order_are_told_once(
    server: Server, ask: Callable[[], AnswerTaken]
):
    """A list that shows everything three times, the last first."""
    ask()
    server.objects["pods"] = [*server.objects["pods"][::-1]] * 3
    taken = ask()
    assert (taken.running, taken.jobs, taken.over) == (2, 2, 0)


@pytest.mark.parametrize(("ahead_s", "way"), [(300, "300 s ahead of"), (-300, "300 s behind")])
def test_a_clock_five_minutes_off_is_said_and_counts(
    server: Server, ask: Callable[[], AnswerTaken], ahead_s: int, way: str
):
    """The server's own: its objects have its times."""

    def wrong(_: str, told: Told) -> Told:
        date = format_datetime(datetime.now(UTC) + timedelta(seconds=ahead_s), usegmt=True)
        return told._replace(headers=(("Date", date),))

    server.fault = wrong
    taken = ask()
    (said,) = (note for note in taken.notes if "the API server's clock" in note)
    assert way.rsplit(maxsplit=1)[-1] in said
    assert taken.late.words() == []
