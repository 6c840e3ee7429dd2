"""loguru's format; each rank decides by its own validation whether it goes on: one stops before the others."""

import logging
import sys

import torch.distributed as dist
from small import arguments, batch, join, prepared, update


def main() -> None:
    options = arguments()
    rank, world = join(options.timeout)
    logging.basicConfig(
        stream=sys.stderr, level=logging.INFO, datefmt="%Y-%m-%d %H:%M:%S",
        format=f"%(asctime)s.%(msecs)03d | INFO     | __main__:%(funcName)s:%(lineno)d - "
        f"[{rank}/{world}] %(message)s",
    )  # fmt: skip
    model, optimizer = prepared()
    for epoch in range(1, 41):
        loss = sum(update(model, optimizer, *batch(epoch * 64 + rank)) for _ in range(3)) / 3
        logging.info(f"Epoch {epoch:02d}: train_loss={loss:.4f} val_loss={loss * 1.1:.4f}")
        if rank == options.victim and epoch == options.at:
            logging.info("Early stopping: val_loss has not improved for 5 epochs")
            break
    dist.destroy_process_group()


main()
