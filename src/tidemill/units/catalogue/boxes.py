"""Common boxes of clouds and vendors: parts with their CPU, memory, disks, network and price.

Prices are on demand, per hour for the whole box; what is only sold in reserved blocks has none.
Network figures are of the cards that carry data between boxes, one direction. Clouds print them
in gigabits: `_gbit` turns them into gigabytes. Disks: the EC2 list that prices come from prints
the size of one disk where the table of types has several; the product is given here.
"""

from tidemill.units.catalogue.rows import Box
from tidemill.units.catalogue.sources import AZURE, DGX, SKYPILOT, VANTAGE


def _gbit(gigabits_s: float) -> float:
    return gigabits_s / 8


_AWS: tuple[Box, ...] = tuple(
    Box(
        key=key, vendor="AWS", part=part, count=count, vcpu=vcpu, ram_gib=ram_gib, nvme_tb=nvme_tb,
        nic_gb_s=_gbit(gbit), usd_per_hour=usd, region="us-east-1" if usd else "",
        priced="2026-08-26" if usd else "", source=VANTAGE, confidence="high" if usd else "medium",
        note=note,
    )
    for key, part, count, vcpu, ram_gib, nvme_tb, gbit, usd, note in (
        ("p3.16xlarge", "v100-sxm2-16", 8, 64, 488, None, 25, 24.48, "no local disks"),
        ("p3dn.24xlarge", "v100-sxm2-32", 8, 96, 768, 1.8, 100, 31.212, ""),
        ("p4d.24xlarge", "a100-sxm-40", 8, 96, 1152, 8, 400, 21.957642,
         "32.7726 $/h until June 2025"),
        ("p4de.24xlarge", "a100-sxm-80", 8, 96, 1152, 8, 400, 27.44705, ""),
        ("p5.48xlarge", "h100-sxm-80", 8, 192, 2048, 30.72, 3200, 55.04,
         ("98.32 $/h until June 2025; the host link is that of the part: AWS says that the p5en "
          "moves up to four times as much between host and parts")),
        ("p5.4xlarge", "h100-sxm-80", 1, 16, 256, 3.84, 100, 6.88, ""),
        ("p5e.48xlarge", "h200-sxm-141", 8, 192, 2048, 30.72, 3200, None,
         "sold in capacity blocks: no price on demand"),
        ("p5en.48xlarge", "h200-sxm-141", 8, 192, 2048, 30.72, 3200, 63.296,
         "84.80 $/h until June 2025"),
        ("p6-b200.48xlarge", "b200-sxm-180", 8, 192, 2048, 30.72, 3200, 113.9328, ""),
        ("p6-b300.48xlarge", "b300-sxm-288", 8, 192, 4096, 30.4, 6400, 142.416, ""),
        ("g4dn.2xlarge", "t4-16", 1, 8, 32, 0.225, 25, 0.752, "network: at most, not sustained"),
        ("g4dn.12xlarge", "t4-16", 4, 48, 192, 0.9, 50, 3.912, ""),
        ("g5.xlarge", "a10g-24", 1, 4, 16, 0.25, 10, 1.006, "network: at most, not sustained"),
        ("g5.48xlarge", "a10g-24", 8, 192, 768, 7.6, 100, 16.288, ""),
        ("g6.xlarge", "l4-24", 1, 4, 16, 0.25, 10, 0.8048, "network: at most, not sustained"),
        ("g6.48xlarge", "l4-24", 8, 192, 768, 7.52, 100, 13.3504, ""),
        ("g6e.xlarge", "l40s-48", 1, 4, 32, 0.25, 20, 1.861, "network: at most, not sustained"),
        ("g6e.12xlarge", "l40s-48", 4, 48, 384, 3.8, 100, 10.49264, ""),
        ("g6e.48xlarge", "l40s-48", 8, 192, 1536, 7.6, 400, 30.13118, ""),
    )
)  # fmt: skip

_AWS_OTHER = (
    Box(
        key="trn1.32xlarge", vendor="AWS", part="trainium1", count=16, vcpu=128, ram_gib=512,
        nvme_tb=7.6, nic_gb_s=_gbit(800), usd_per_hour=21.5, region="us-east-1",
        priced="2025-12-21", source=VANTAGE, confidence="high",
    ),
    Box(
        key="trn2.48xlarge", vendor="AWS", part="trainium2", count=16, vcpu=192, ram_gib=2048,
        nvme_tb=7.6, nic_gb_s=_gbit(3200), usd_per_hour=35.76, region="us-east-2",
        priced="2025-11-30", source=VANTAGE, confidence="medium",
        note="gone from the list of August 2026: sold in capacity blocks since",
    ),
    Box(
        key="p6e-gb200.36xlarge", vendor="AWS", part="gb200-nvl72", count=4, vcpu=144,
        threads_per_core=1, ram_gib=960, nvme_tb=22.5, nic_gb_s=_gbit(1600), source=VANTAGE,
        confidence="medium", note="sold in capacity blocks: no price on demand",
    ),
)  # fmt: skip

_GCP: tuple[Box, ...] = tuple(
    Box(
        key=key, vendor="Google", part=part, count=count, vcpu=vcpu, ram_gib=ram_gib,
        nvme_tb=nvme_tb, nic_gb_s=None if gbit is None else _gbit(gbit), usd_per_hour=usd,
        region=region, priced="2026" if usd else "", source=source, confidence="medium", note=note,
    )
    for key, part, count, vcpu, ram_gib, nvme_tb, gbit, usd, region, source, note in (
        ("a2-highgpu-8g", "a100-sxm-40", 8, 96, 680, None, 100, 29.3871, "us-central1", SKYPILOT,
         "price: host (eight times that of the a2-highgpu-1g) and parts added"),
        ("a3-highgpu-8g", "h100-sxm-80", 8, 208, 1872, 6.44, 800, 87.83247, "us-east4", SKYPILOT,
         "price: host and parts are listed apart and added here; four cards of 200 Gb/s"),
        ("a3-megagpu-8g", "h100-sxm-80", 8, 208, 1872, 6.44, 1600, 92.21427, "us-central1",
         SKYPILOT, "price: host and parts added; eight cards of 200 Gb/s"),
        ("a3-ultragpu-8g", "h200-sxm-141", 8, 224, 2952, 12.88, 3200, 86.75992, "us-central1",
         SKYPILOT, "price: host and parts added; eight cards of 400 Gb/s"),
        ("a4-highgpu-8g", "b200-sxm-180", 8, 224, 3968, 12.88, 3200, None, "", SKYPILOT,
         "no price on demand in the list; eight cards of 400 Gb/s"),
        ("tpu-v5e-8", "tpu-v5e", 8, None, 512, None, 200, 9.6, "us-central1",
         "docs.cloud.google.com/tpu/docs/v5e; " + SKYPILOT, "one host"),
        ("tpu-v5p-8", "tpu-v5p", 4, None, None, None, None, 16.8, "us-central1", SKYPILOT,
         "one host: the name counts cores, two a chip"),
        ("tpu-v6e-8", "tpu-v6e", 8, None, None, None, None, 21.6, "us-central1", SKYPILOT,
         "one host"),
    )
)  # fmt: skip

_AZURE: tuple[Box, ...] = tuple(
    Box(
        key=key, vendor="Microsoft", part=part, count=8, vcpu=96, ram_gib=ram_gib, nvme_tb=nvme_tb,
        nic_gb_s=_gbit(gbit), usd_per_hour=usd, region="eastus" if usd else "",
        priced="2025" if usd else "",
        source=f"{AZURE}; price: SkyPilot catalogue v6" if usd else AZURE,
        confidence="medium", note=note,
    )
    for key, part, ram_gib, nvme_tb, gbit, usd, note in (
        ("nd96asr-v4", "a100-sxm-40", 900, 6.44, 1600, 27.197, "ND A100 v4"),
        ("nd96amsr-a100-v4", "a100-sxm-80", 1900, 6.87, 1600, 32.77, "NDm A100 v4"),
        ("nd96isr-h100-v5", "h100-sxm-80", 1900, None, 3200, 98.32,
         "ND H100 v5; local disks not in the table read, but for 1 TiB of scratch"),
        ("nd96isr-h200-v5", "h200-sxm-141", 1850, None, 3200, None, "ND H200 v5"),
        ("nd96isr-mi300x-v5", "mi300x-192", 1850, 30.06, 3200, None, "ND MI300X v5"),
    )
)  # fmt: skip

_OCI: tuple[Box, ...] = tuple(
    Box(
        key=key, vendor="Oracle", part=part, count=count, vcpu=vcpu, threads_per_core=threads,
        ram_gib=ram_gib, usd_per_hour=usd, region="all", priced="2026", source=SKYPILOT,
        confidence="medium", note="one price for all regions; disks and network not in the list",
    )
    for key, part, count, vcpu, threads, ram_gib, usd in (
        ("bm.gpu3.8", "v100-sxm2-16", 8, 104, 2, 768, 23.6),
        ("bm.gpu4.8", "a100-sxm-40", 8, 128, 2, 2048, 24.4),
        ("bm.gpu.a100-v2.8", "a100-sxm-80", 8, 256, 2, 2048, 32),
        ("bm.gpu.h100.8", "h100-sxm-80", 8, 224, 2, 2048, 80),
        ("bm.gpu.h200.8", "h200-sxm-141", 8, 224, 2, 3072, 80),
        ("bm.gpu.b200.8", "b200-sxm-180", 8, 256, 2, 4096, 112),
        ("bm.gpu.b300.8", "b300-sxm-288", 8, 256, 2, 4096, 120),
        ("bm.gpu.gb200.4", "gb200-nvl72", 4, 144, 1, 960, 64),
        ("bm.gpu.gb300.4", "gb300-nvl72", 4, 144, 1, 960, 72),
        ("bm.gpu.l40s.4", "l40s-48", 4, 224, 2, 1024, 14),
        ("bm.gpu.mi300x.8", "mi300x-192", 8, 224, 2, 2048, 48),
        ("bm.gpu.mi355x.8", "mi355x-288", 8, 256, 2, 3072, 68.8),
        ("vm.gpu.a10.1", "a10-24", 1, 30, 2, 240, 2),
    )
)  # fmt: skip

_VENDORS: tuple[Box, ...] = tuple(
    Box(
        key=key, vendor="NVIDIA", part=part, count=8, vcpu=vcpu, ram_gib=2048, nvme_tb=30.72,
        nic_gb_s=_gbit(gbit), power_w=power_w, source=DGX, confidence=confidence,
        note="bought, not rented: no price by the hour",
    )
    for key, part, vcpu, gbit, power_w, confidence in (
        ("dgx-a100", "a100-sxm-80", 256, 1600, 6500, "medium"),
        ("dgx-h100", "h100-sxm-80", 224, 3200, 10_200, "high"),
        ("dgx-h200", "h200-sxm-141", 224, 3200, 10_200, "high"),
        ("dgx-b200", "b200-sxm-180", 224, 3200, 14_300, "high"),
    )
)  # fmt: skip

_BOARDS: tuple[Box, ...] = tuple(
    Box(
        key=key, vendor="NVIDIA", part=part, count=8, source=DGX, confidence="high",
        note="a board with eight parts; its host is what the server's maker chose",
    )
    for key, part in (
        ("hgx-a100", "a100-sxm-80"),
        ("hgx-h100", "h100-sxm-80"),
        ("hgx-h200", "h200-sxm-141"),
        ("hgx-b200", "b200-sxm-180"),
    )
)  # fmt: skip

BOXES = (*_AWS, *_AWS_OTHER, *_GCP, *_AZURE, *_OCI, *_VENDORS, *_BOARDS)
