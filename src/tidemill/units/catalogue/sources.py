"""Sources that many rows of the catalogue share."""

ML_ENGINEERING = "stas00/ml-engineering@744d01e (2026-08-22), accelerator and network pages"
EPOCH = "Epoch AI ml_hardware.csv (CC-BY, 2026-04)"
AICONFIGURATOR = "ai-dynamo/aiconfigurator@095f58a"
VANTAGE = "EC2 price and instance lists by Vantage, copied in tsaol/aws-gpu (2026-08-26)"
SKYPILOT = "skypilot-org/skypilot-catalog v8 (price lists of the cloud)"
AZURE = "MicrosoftDocs/azure-compute-docs, size tables of the ND series"
DGX = "docs.nvidia.com/dgx, user guides and BasePOD reference architecture"
