"""What touches the device: the only modules that import torch, and only when a sitting begins."""
