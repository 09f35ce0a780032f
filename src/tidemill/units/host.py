"""The host: what feeds the devices of a box, which station binds, and how long a device waits.

A sample passes storage (network, local disks or page cache), the cores that decode it, host
memory, and the link to its device. Each station is a rate; with prefetching the slowest one sets
the pace, and a device is fed the share that the slowest gives of what it could take. Nothing is
queued in the model: variance only makes the wait longer.

Rates are of the whole box, in samples and in bytes a second. What the catalogue does not know is
None: it cannot bind, and it is shown.
"""

from enum import Enum
from typing import Annotated, NamedTuple

import msgspec
from msgspec import Meta, Struct

from tidemill.model.measures import ONE_PPM
from tidemill.units.catalogue.book import Catalogue
from tidemill.units.catalogue.rows import Amount, Box, Part, Some

GIGA = 1e9
MEMORY_PASSES = 4
"""Times a decoded sample crosses host memory: written by the decoder, read and written when it is
gathered into a batch, read by the link."""

Share = Annotated[float, Meta(ge=0, lt=1)]


class Storage(Enum):
    """Where samples are read from."""

    NETWORK = "network"
    NVME = "nvme"
    CACHE = "cache"


class Intake(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What one sample costs on its way to a device."""

    stored_bytes: Amount
    """As it lies in storage, compressed."""
    device_bytes: Amount
    """As it crosses host memory and the link."""
    per_core_s: Amount | None = None
    """Samples that one core decodes a second; None: nothing is decoded."""
    per_device_s: Amount
    """Samples that one device takes a second when it never waits."""


class HostSupply(Struct, frozen=True, kw_only=True):
    """The host's side of a box; 10^9 bytes a second, one direction. None is unknown."""

    devices: Some
    cores: Some | None = None
    network_gb_s: Amount | None = None
    nvme_gb_s: Amount | None = None
    ram_gb_s: Amount | None = None
    host_link_gb_s: Amount | None = None
    """For each device."""


IMAGES = Intake(stored_bytes=108_000, device_bytes=224 * 224 * 3, per_core_s=350, per_device_s=2800)
"""Training on photographs: 138 GB / 1.28 million of ImageNet each, 224² pixels of three bytes;
a core decodes 350 a second, an H100 takes 2,800 (ResNet-50)."""


H100_TB_S = 3.35


def images(part: Part) -> Intake:
    """Photographs for another part: convolutions wait for memory, so its bandwidth sets the pace.

    Modelled from one figure (2,800 a second on an H100); give a measured one where there is one.
    """
    pace = 2800 * part.memory_tb_s / H100_TB_S
    return msgspec.structs.replace(IMAGES, per_device_s=pace)


class Station(NamedTuple):
    """One thing that every sample passes."""

    name: str
    samples_per_s: float | None
    bytes_per_s: float | None


class CoreRatio(NamedTuple):
    """Cores for each device: what the box has, and what would keep a device fed."""

    has: float | None
    needs: float


def supply(book: Catalogue, box: Box, storage_gb_s: float | None = None) -> HostSupply:
    """The host's side of a box; an object store's own limit stands for its network card's."""
    return HostSupply(
        devices=box.count,
        cores=box.cores,
        network_gb_s=storage_gb_s or box.nic_gb_s,
        nvme_gb_s=box.nvme_gb_s,
        ram_gb_s=box.ram_gb_s,
        host_link_gb_s=book.host_link_gb_s(box),
    )


def stations(
    host: HostSupply, intake: Intake, storage: Storage = Storage.NETWORK, cached: Share = 0.0
) -> tuple[Station, ...]:
    """Every station on the way, from storage to device; ``cached`` of the reads hit memory."""
    link_gb_s = None if host.host_link_gb_s is None else host.host_link_gb_s * host.devices
    stored_gb_s = {
        Storage.NETWORK: host.network_gb_s,
        Storage.NVME: host.nvme_gb_s,
        Storage.CACHE: host.ram_gb_s,
    }[storage]
    reads = intake.stored_bytes * (1 if storage is Storage.CACHE else 1 - cached)
    return (
        _moved(storage.value, stored_gb_s, reads),
        _decoded(host.cores, intake),
        _moved("memory", host.ram_gb_s, intake.device_bytes * MEMORY_PASSES),
        _moved("host link", link_gb_s, intake.device_bytes),
        Station("device", intake.per_device_s * host.devices, None),
    )


def binding(found: tuple[Station, ...]) -> Station:
    """The slowest station that is known; of equals the one nearest to storage."""
    known = [(station.samples_per_s, i) for i, station in enumerate(found)
             if station.samples_per_s is not None]  # fmt: skip
    return found[min(known)[1]]


def fed_ppm(found: tuple[Station, ...]) -> int:
    """How much of what the devices could take the host gives them, at most all of it."""
    appetite, given = found[-1].samples_per_s, binding(found).samples_per_s
    assert appetite is not None
    assert given is not None
    return round(ONE_PPM * given / appetite)


def host_stall_ppm(
    host: HostSupply,
    intake: Intake,
    storage: Storage = Storage.NETWORK,
    cached: Share = 0.0,
    is_prefetched: bool = True,
) -> int:
    """How much of a step's time the devices wait for the host.

    With prefetching, host and device work at once and the slower sets the pace. Without, every
    station's time for a sample is added to the device's.
    """
    found = stations(host, intake, storage, cached)
    if is_prefetched:
        return ONE_PPM - fed_ppm(found)
    waits = sum(1 / station.samples_per_s for station in found[:-1] if station.samples_per_s)
    works = 1 / (intake.per_device_s * host.devices)
    return round(ONE_PPM * waits / (waits + works))


def core_ratio(host: HostSupply, intake: Intake) -> CoreRatio:
    """Cores for each device, beside what decoding needs."""
    needs = 0.0 if intake.per_core_s is None else intake.per_device_s / intake.per_core_s
    return CoreRatio(None if host.cores is None else host.cores / host.devices, needs)


def _moved(name: str, gb_s: float | None, bytes_each: float) -> Station:
    if gb_s is None:
        return Station(name, None, None)
    return Station(name, gb_s * GIGA / bytes_each, gb_s * GIGA)


def _decoded(cores: int | None, intake: Intake) -> Station:
    if cores is None or intake.per_core_s is None:
        return Station("cores", None, None)
    rate = cores * intake.per_core_s
    return Station("cores", rate, rate * intake.stored_bytes)
