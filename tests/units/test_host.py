"""The host: the worked examples to the digit, which station binds, and what waits."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemill.units import checkpoint_io, host
from tidemill.units.catalogue.book import Catalogue
from tidemill.units.host import IMAGES, HostSupply, Intake, Storage

BOOK = Catalogue()


def one_h100(cores: int) -> HostSupply:
    """One H100 with so many cores, and nothing else that could bind."""
    return HostSupply(devices=1, cores=cores, network_gb_s=50, host_link_gb_s=64)


@pytest.mark.parametrize(
    ("cores", "decoded", "binds", "fed_ppm"),
    [(14, 4900, "device", 1_000_000), (4, 1400, "cores", 500_000), (8, 2800, "cores", 1_000_000)],
)
def test_cores_of_the_worked_example(cores: int, decoded: float, binds: str, fed_ppm: int):
    """350 images a core, 2,800 an H100: 14 cores give 4,900 and feed it, 4 give half of it."""
    found = host.stations(one_h100(cores), IMAGES)
    by_name = {station.name: station for station in found}
    assert by_name["cores"].samples_per_s == decoded
    assert by_name["device"].samples_per_s == 2800
    assert host.binding(found).name == binds
    assert host.fed_ppm(found) == fed_ppm
    assert host.host_stall_ppm(one_h100(cores), IMAGES) == 1_000_000 - fed_ppm


def test_eight_cores_keep_an_h100_fed():
    """2,800 / 350: the CPU:GPU ratio that the example asks for; a DGX H100 has 14, a p5 12."""
    assert host.core_ratio(one_h100(4), IMAGES) == (4, 8)
    assert host.core_ratio(host.supply(BOOK, BOOK.box("dgx-h100")), IMAGES) == (14, 8)
    assert host.core_ratio(host.supply(BOOK, BOOK.box("p5.48xlarge")), IMAGES) == (12, 8)
    assert host.core_ratio(host.supply(BOOK, BOOK.box("hgx-h100")), IMAGES) == (None, 8)


def test_checkpoints_of_the_worked_example():
    """1,120 GB (70 B parameters of 16 bytes) at 5 GB/s: 224 s; in eight shards: 28 s."""
    assert checkpoint_io.synchronous(1120, 5) == (224, 224, 0)
    assert checkpoint_io.synchronous(1120, 5, writers=8).stall_s == 28
    assert checkpoint_io.synchronous(1120, 5, writers=8, file_system_gb_s=20).stall_s == 56


def test_cold_starts_of_the_worked_example():
    """26 GB of weights: 0.406 s over PCIe 5 (64 GB/s, one direction), 13 s from a 2 GB/s store."""
    assert checkpoint_io.cold_start_s(26, 64) == pytest.approx(0.406, abs=0.0005)
    assert checkpoint_io.cold_start_s(26, 2) == 13
    assert checkpoint_io.cold_start_s(26, 2, 64) == 13
    assert checkpoint_io.cold_start_s(26, 2, 64, is_streamed=False) == pytest.approx(
        13.406, abs=0.0005
    )


def test_links_like_for_like():
    """NVLink's 900 GB/s is both directions; against PCIe's 64 in one it is 7 times, not 14."""
    h100 = BOOK.part("h100")
    assert h100.link_gb_s is not None
    assert h100.host_link_gb_s is not None
    assert round(h100.link_gb_s / h100.host_link_gb_s) == 7


def test_an_asynchronous_checkpoint_stands_for_the_copy():
    """Eight links of 64 GB/s take 1,120 GB in 2.19 s; the rest is written while the job works."""
    saved = checkpoint_io.asynchronous(1120, 5, copy_gb_s=8 * 64, interval_s=600, writers=8)
    assert saved.stall_s == pytest.approx(2.1875)
    assert saved.written_s == pytest.approx(30.1875)
    assert saved.held_gb == 140


def test_a_checkpoint_that_is_late_stands_again():
    """Writing takes 224 s and the next is due after 100: the job waits for the other 124."""
    saved = checkpoint_io.asynchronous(1120, 5, copy_gb_s=512, interval_s=100)
    assert saved.stall_s == pytest.approx(1120 / 512 + 124)


def test_the_share_of_time_that_checkpoints_take():
    """28 s after every 10 minutes of work: 28 of 628 seconds."""
    assert checkpoint_io.stall_ppm(checkpoint_io.synchronous(1120, 5, writers=8), 600) == round(
        28e6 / 628
    )


@pytest.mark.parametrize(
    ("changed", "binds"),
    [
        ({"network_gb_s": 0.1}, "network"),
        ({"ram_gb_s": 1.0}, "memory"),
        ({"host_link_gb_s": 0.2}, "host link"),
        ({"cores": 1}, "cores"),
        ({}, "device"),
    ],
)
def test_any_station_may_bind(changed: dict[str, float], binds: str):
    """The slowest station is named, whichever it is."""
    plenty = HostSupply(devices=1, cores=64, network_gb_s=50, ram_gb_s=300, host_link_gb_s=64)
    box = msgspec.structs.replace(plenty, **changed)
    found = host.stations(box, IMAGES)
    assert host.binding(found).name == binds


def test_what_is_unknown_cannot_bind():
    """A disk of unknown speed is shown as unknown, and the cores bind."""
    found = host.stations(one_h100(4), IMAGES, Storage.NVME)
    assert found[0] == ("nvme", None, None)
    assert host.binding(found).name == "cores"


def test_the_page_cache_spares_storage():
    """With 90 % of reads from memory the network carries a tenth."""
    cold = host.stations(one_h100(64), IMAGES)[0].samples_per_s
    warm = host.stations(one_h100(64), IMAGES, cached=0.9)[0].samples_per_s
    assert cold is not None
    assert warm == pytest.approx(10 * cold)


def test_without_prefetching_times_add_up():
    """Four cores at 1,400/s before a device at 2,800/s: two thirds of the time is waiting."""
    only_cores = HostSupply(devices=1, cores=4)
    assert host.host_stall_ppm(only_cores, IMAGES, is_prefetched=False) == round(2e6 / 3)


def test_images_go_with_the_bandwidth_of_memory():
    """An H200 has 4.8 / 3.35 of an H100's bandwidth and takes as many more images."""
    assert host.images(BOOK.part("h100")) == IMAGES
    assert host.images(BOOK.part("h200")).per_device_s == pytest.approx(2800 * 4.8 / 3.35)


def test_a_devices_own_pace_is_no_stall():
    """A host of which nothing is known stalls nothing: the device is the only known station."""
    assert host.host_stall_ppm(HostSupply(devices=8), IMAGES) == 0


@given(
    cores=st.integers(1, 512),
    devices=st.integers(1, 16),
    network=st.floats(0.01, 1000),
    per_device=st.floats(0.1, 1e6),
)
def test_more_never_stalls_more(cores: int, devices: int, network: float, per_device: float):
    """Doubling the cores or the network never makes a device wait longer, and ppm stay in range."""
    intake = Intake(stored_bytes=1e5, device_bytes=1.5e5, per_core_s=350, per_device_s=per_device)
    base = HostSupply(devices=devices, cores=cores, network_gb_s=network)
    before = host.host_stall_ppm(base, intake)
    for better in (
        HostSupply(devices=devices, cores=2 * cores, network_gb_s=network),
        HostSupply(devices=devices, cores=cores, network_gb_s=2 * network),
    ):
        assert 0 <= host.host_stall_ppm(better, intake) <= before <= 1_000_000
