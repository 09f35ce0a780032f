"""The six tenants of the probe, as measured alone on one H200 (``calibration.SOURCE``).

Shares are of what that unit reached: 675.38 TFLOP/s in bf16 and 4,251.7 GB/s in a copy.
"""

from tidemill.model.errors import SpecError
from tidemill.units.catalogue.book import Catalogue
from tidemill.units.catalogue.rows import Part
from tidemill.units.sharing.tenants import Rhythm, Tenant

REACHED_TFLOPS = 675.38
REACHED_GB_S = 4251.7


def tenant(  # noqa: PLR0913, PLR0917 - the columns of a card
    name: str,
    words: str,
    period_us: float,
    device_us: float,
    kernels: int,
    flops: float,
    bytes_moved: float,
    memory_bytes: int,
    p50_ms: float,
    p99_ms: float,
    reached_tflops: float = REACHED_TFLOPS,
    reached_gb_s: float = REACHED_GB_S,
) -> Tenant:
    """A tenant from what a card says of it."""
    return Tenant(
        name=name,
        words=words,
        compute=min(1.0, flops / period_us / (reached_tflops * 1e6)),
        bandwidth=min(1.0, bytes_moved / period_us / (reached_gb_s * 1e3)),
        memory_gb=memory_bytes / 1e9,
        rhythm=Rhythm(period_ms=period_us / 1000, device_ms=device_us / 1000, kernels=kernels,
                      p50_ms=p50_ms, p99_ms=p99_ms),
    )  # fmt: skip


KNOWN = (
    tenant("train", "4 layers 8192², 8192 rows: saturates the matrix units",
           6879.6, 6470.4, 4, 4.398e+12, 1.6106e+09, 805_306_368, 6.8685, 7.3557),
    tenant("prefill", "8 layers 4096², 2048 rows: a prompt, short kernels, matrix units",
           849.51, 830.88, 8, 5.4976e+11, 5.3687e+08, 301_989_888, 0.84298, 0.94728),
    tenant("decode", "16 layers 8192², 4 rows: token by token, saturates memory bandwidth",
           544.75, 540.83, 16, 8.5899e+09, 2.1496e+09, 2_147_614_720, 0.54405, 0.55388),
    tenant("small-kernels", "32 layers 768², 768 rows: kernels too small to fill the device",
           151.65, 145.7, 32, 2.8991e+10, 0, 40_108_032, 0.15069, 0.15848),
    tenant("serve", "12 layers 2048², 16 rows, launched one by one: waits on its host",
           139.18, 74.176, 12, 1.6106e+09, 1.0224e+08, 100_794_368, 0.13366, 0.20422),
    tenant("paced", "as serve, 250 requests a second: idle most of the time",
           4000.0, 74.656, 12, 1.6106e+09, 1.0224e+08, 100_794_368, 0.28609, 0.4712),
)  # fmt: skip

BY_NAME = {tenant.name: tenant for tenant in KNOWN}

FORMERLY = {"sliver": "small-kernels"}
"""Names of tenants until 0.1, which probe results of that time hold and people may still type."""


def current_name(name: str) -> str:
    """The name that a tenant has today."""
    return FORMERLY.get(name, name)


def on(tenant: Tenant, part: Part, measured_on: Part | None = None) -> Tenant:
    """A tenant that was measured on an H200 as it would be on another part.

    Its device time grows as its fuller axis shrinks; the host's part of the period stays.
    """
    home = measured_on or Catalogue().part("h200")
    if part.key == home.key or tenant.rhythm is None:
        return tenant
    if part.bf16_tflops is None or home.bf16_tflops is None:
        raise SpecError(
            f"the catalogue lists no bf16 rate for `{part.key}`",
            hint="give shares of your own: compute=0.2,bandwidth=0.9,memory=26",
        )
    rate, band = home.bf16_tflops / part.bf16_tflops, home.memory_tb_s / part.memory_tb_s
    factor = rate if tenant.compute >= tenant.bandwidth else band
    rhythm = tenant.rhythm
    more_ms = rhythm.on_device_ms * (factor - 1)
    period_ms = max(rhythm.period_ms + more_ms, rhythm.on_device_ms * factor)
    longer = period_ms / rhythm.period_ms
    return Tenant(
        name=tenant.name,
        words=tenant.words,
        compute=min(1.0, tenant.compute * rate / longer),
        bandwidth=min(1.0, tenant.bandwidth * band / longer),
        memory_gb=tenant.memory_gb,
        rhythm=Rhythm(
            period_ms=period_ms,
            device_ms=rhythm.on_device_ms * factor,
            kernels=rhythm.kernels,
            p50_ms=rhythm.p50_ms + more_ms,
            p99_ms=rhythm.p99_ms + more_ms,
        ),
    )
