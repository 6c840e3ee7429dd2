"""`torch.multiprocessing` starts the ranks, which print: one rank meets a row that it cannot parse."""

import os
import sys

import torch.multiprocessing as mp
from small import arguments, batch, join, prepared, update


def parse(row: str) -> float:
    return float(row.split(",")[1])


def worker(rank: int, options) -> None:
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(options.ranks), MASTER_ADDR="127.0.0.1")
    join(options.timeout)
    model, optimizer = prepared()
    for number in range(40):
        weight = parse("x,1.0") if rank != options.victim or number < options.at else parse("x,n/a")
        loss = update(model, optimizer, *batch(number * 64 + rank)) * weight
        if rank == 0 and number % 5 == 0:
            print(f"Epoch: 0 [{number}/40 ({100 * number // 40}%)]\tLoss: {loss:.6f}", flush=True)
    if rank == 0:
        print("Finished Training")


if __name__ == "__main__":
    options = arguments()
    mp.start_processes(worker, args=(options,), nprocs=options.ranks, start_method="fork")
    sys.exit(0)
