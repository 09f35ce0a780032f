"""A plain PyTorch loop that is tracked: on a GPU where there is one, otherwise on the processor.

TIDEMILL_TRACK=file:out/track python examples/track/pytorch_loop.py
TIDEMILL_TRACK=file:out/track torchrun --nproc-per-node 2 examples/track/pytorch_loop.py
"""

import sys
import threading
from pathlib import Path

import torch

from tidemill import track

STEPS, BATCH, WIDTH, SAVE_EVERY = 200, 256, 1024, 50


def main(state: Path) -> None:
    """Train to the last step, from the checkpoint if there is one; save beside the loop."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = torch.nn.Sequential(
        torch.nn.Linear(WIDTH, 4 * WIDTH), torch.nn.GELU(), torch.nn.Linear(4 * WIDTH, WIDTH)
    ).to(device)
    optimizer = torch.optim.AdamW(model.parameters())
    weights = sum(parameter.numel() for parameter in model.parameters())
    data = torch.utils.data.TensorDataset(torch.randn(STEPS * BATCH, WIDTH))
    loader = torch.utils.data.DataLoader(data, batch_size=BATCH, num_workers=1)
    sync = torch.cuda.synchronize if device.type == "cuda" else None
    with track.job("pytorch", gpus=int(device.type == "cuda"), sync=sync) as run:
        if state.exists():
            saved = torch.load(state, map_location=device)
            model.load_state_dict(saved["model"])
            run.restored(saved["step"])
        writer = threading.Thread()
        writer.start()
        for (batch,) in run.batches(loader):
            if run.last_step >= STEPS:
                break
            with run.step(samples=len(batch), flops=6 * weights * len(batch)):
                inputs = batch.to(device, non_blocking=True)
                loss = torch.nn.functional.mse_loss(model(inputs), inputs)
                optimizer.zero_grad(set_to_none=True)
                loss.backward()
                optimizer.step()
            if run.last_step % SAVE_EVERY == 0:
                writer = save_beside(run, model, state)
        writer.join()  # what is saved after the end of the run is not told


def save_beside(run: track.TrackedRun, model: torch.nn.Module, state: Path) -> threading.Thread:
    """Copy the weights while the loop stands still, then write them while it goes on."""
    saving = run.checkpoint_begun()
    with saving.stall():
        copy = {name: value.detach().cpu().clone() for name, value in model.state_dict().items()}

    def write() -> None:
        torch.save({"step": saving.step, "model": copy}, state.with_suffix(".new"))
        state.with_suffix(".new").replace(state)
        saving.saved(state.stat().st_size)

    writer = threading.Thread(target=write)
    writer.start()
    return writer


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "pytorch-state.pt"))
