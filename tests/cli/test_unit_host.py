"""`tidemill unit host`: stations, the verdict, checkpoints and cold starts, as people see them."""

import json

from tests.cli.shell import tidemill


def test_a_p5_feeds_its_h100s():
    """Twelve cores a device decode more than eight would need to: the device binds."""
    ran = tidemill("unit", "host", "p5.48xlarge")
    assert ran.code == 0, ran.err
    assert "slowest: device; the GPUs get 100.0 % of what they could take" in ran.out
    assert "CPU cores per GPU: 12; decoding needs 8" in ran.out
    assert "unknown" in ran.out


def test_a_small_box_starves_its_part():
    """Two cores for an L40S: 700 images a second are below what it would take."""
    found = json.loads(tidemill("unit", "host", "g6e.xlarge", "--json").out)
    assert found["binds"] == "cores"
    assert found["fed_ppm"] == round(1e6 * 700 / (2800 * 0.86 / 3.35))


def test_the_worked_examples_on_screen():
    """1,120 GB at 5 GB/s a writer: 224 s, 28 s sharded over eight; 26 GB over PCIe: 0.406 s."""
    words = (
        "--state-gb",
        "1120",
        "--writer-gb-s",
        "5",
        "--weights-gb",
        "26",
        "--storage-gb-s",
        "2",
    )
    found = json.loads(tidemill("unit", "host", "p5", *words, "--json").out)
    assert found["checkpoint"]["synchronous"]["stall_s"] == 224
    assert found["checkpoint"]["sharded"]["stall_s"] == 28
    assert found["cold_start_s"] == {"from_host_memory": 26 / 64, "from_storage": 13}
    shown = tidemill("unit", "host", "p5", *words)
    assert "224" in shown.out
    assert "0.406" in shown.out


def test_a_board_without_a_host_says_unknown():
    """Nothing is known of an HGX board's host: nothing binds but the device."""
    found = json.loads(tidemill("unit", "host", "hgx-h100", "--json").out)
    assert found["binds"] == "device"
    assert found["cores_per_device"]["has"] is None


def test_an_unknown_storage_is_refused():
    """The refusal names the storages there are."""
    ran = tidemill("unit", "host", "p5", "--storage", "tape")
    assert ran.code == 2
    assert "network, nvme, cache" in ran.err
