"""Which card had a number when: kept by change, found by time."""

import pytest

from tidemill.journal import device_ids
from tidemill.journal.device_ids import DeviceIds, DeviceNamed
from tidemill.model.errors import JournalError


def test_a_replaced_card_leaves_its_number_to_the_next():
    """Errors are of the card of their time; of other devices, and of before, nothing is known."""
    kept = device_ids.facts((), [DeviceNamed(100, "n1", 3, "GPU-a"), DeviceNamed(50, "n1", 3, "")])
    known = device_ids.of(kept, "j")
    assert known == [(100, "n1", 3, "GPU-a")]
    again = [DeviceNamed(200, "n1", 3, "GPU-a"), DeviceNamed(300, "n1", 3, "GPU-b")]
    kept = device_ids.facts(known, again)
    assert device_ids.of(kept, "j") == [(100, "n1", 3, "GPU-a"), (300, "n1", 3, "GPU-b")]
    assert device_ids.facts(device_ids.of(kept, "j"), again) == kept, "told again is no news"
    cards = DeviceIds(device_ids.of(kept, "j"))
    found = [cards.at("n1", 3, at) for at in (99, 100, 299, 300, 900)]
    assert found == ["", "GPU-a", "GPU-a", "GPU-b", "GPU-b"]
    assert (cards.at("n1", 2, 900), cards.at("n2", 3, 900)) == ("", "")


def test_it_is_bounded(monkeypatch: pytest.MonkeyPatch):
    """The last changes are kept."""
    monkeypatch.setattr(device_ids, "MOST", 2)
    told = [DeviceNamed(at, "n1", at, f"GPU-{at}") for at in range(5)]
    assert [one.uuid for one in device_ids.of(device_ids.facts((), told), "j")] == [
        "GPU-3",
        "GPU-4",
    ]


def test_a_damaged_fact_is_said():
    """By its name and journal."""
    with pytest.raises(JournalError, match=r"`j\.sqlite` has a fact `device_ids`"):
        device_ids.of({device_ids.FACT: "["}, "j.sqlite")
