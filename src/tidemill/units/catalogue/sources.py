"""Sources that many rows of the catalogue share."""

ML_ENGINEERING = "stas00/ml-engineering@744d01e (2026-08-22), accelerator and network pages"
EPOCH = "Epoch AI ml_hardware.csv (CC-BY, 2026-04)"
