"""Capability: dense BF16 TFLOP/s of common accelerators, to add unlike ones up.

A fleet of 256 A100 and 768 H100 is not 1,024 of anything; in H100 equivalents it is 849. Figures
are dense (vendors often print sparse ones, twice as high). A kind that is not in the table has
unknown capability, which is never taken as zero.
"""

REFERENCE = "H100"

BF16_DENSE_GFLOPS: dict[str, int] = {
    # Vendor data sheets, checked against stas00/ml-engineering (2026-08) and Epoch AI's hardware
    # table (2026-04). V100 and T4 have no BF16: their FP16 tensor rate stands in.
    "V100": 125_000,
    "P100": 21_200,  # FP16, no tensor cores
    "T4": 65_000,
    "A10": 125_000,
    "A100": 312_000,
    "A800": 312_000,
    "H20": 148_000,
    "H100": 989_000,  # SXM
    "H100-PCIE": 756_000,
    "H100-NVL": 835_000,
    "H800": 989_000,
    "H200": 989_000,
    "GH200": 989_000,
    "B200": 2_250_000,
    "B300": 2_250_000,
    "GB200": 2_500_000,
    "GB300": 2_500_000,
    "L4": 121_000,
    "L40S": 362_000,
    "MI250X": 383_000,
    "MI300X": 1_307_400,
    "MI325X": 1_307_400,
    "MI355X": 2_516_600,
    "GAUDI3": 1_677_000,
    "TPU-V4": 275_000,
    "TPU-V5E": 197_000,
    "TPU-V5P": 459_000,
    "TPU-V6E": 918_000,
    "TPU-V7X": 2_307_000,
    "TRAINIUM1": 190_000,
    "TRAINIUM2": 667_000,
    "TRAINIUM3": 671_000,
}

REFERENCE_GFLOPS = BF16_DENSE_GFLOPS[REFERENCE]


def gflops(kind: str) -> int | None:
    """Dense BF16 GFLOP/s of a kind (``H100``, ``NVIDIA-H100-80GB-HBM3``); None when unknown."""
    name = kind.upper().replace("_", "-").replace(" ", "-")
    name = name.removeprefix("NVIDIA-").removeprefix("TESLA-")
    if name in BF16_DENSE_GFLOPS:
        return BF16_DENSE_GFLOPS[name]
    known = [k for k in BF16_DENSE_GFLOPS if name.startswith(k + "-")]
    return BF16_DENSE_GFLOPS[max(known, key=len)] if known else None
