"""Rank 0 prepares the data while the others wait at a barrier for less long than that takes."""

import time

import torch.distributed as dist
from small import arguments, batch, join, prepared, update


def main() -> None:
    options = arguments()
    rank, _ = join(options.timeout)
    if rank == 0:
        for done in range(0, 10_000, 250):
            print(f"Tokenizing: {done}/10000 documents", flush=True)
            time.sleep(options.timeout / 20)
    dist.barrier()
    model, optimizer = prepared()
    for number in range(10):
        print(number, update(model, optimizer, *batch(number)))


main()
