"""A service on the same GPU: batches of matrix products for so many seconds, with pauses."""

import sys
import time

import torch

end_s = time.time() + float(sys.argv[1])
a = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
while time.time() < end_s:
    for _ in range(40):
        a @ a
    torch.cuda.synchronize()
    time.sleep(0.005)
