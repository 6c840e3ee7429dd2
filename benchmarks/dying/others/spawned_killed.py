"""`torch.multiprocessing` starts the ranks, which print: one rank is killed."""

import os
import signal
import sys

import torch.multiprocessing as mp
from small import arguments, batch, join, prepared, update


def worker(rank: int, options) -> None:
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(options.ranks), MASTER_ADDR="127.0.0.1")
    join(options.timeout)
    model, optimizer = prepared()
    for number in range(40):
        if rank == options.victim and number == options.at:
            os.kill(os.getpid(), signal.SIGKILL)
        loss = update(model, optimizer, *batch(number * 64 + rank))
        if rank == 0 and number % 5 == 0:
            print(f"Epoch: 0 [{number}/40 ({100 * number // 40}%)]\tLoss: {loss:.6f}", flush=True)
    if rank == 0:
        print("Finished Training")


if __name__ == "__main__":
    options = arguments()
    mp.start_processes(worker, args=(options,), nprocs=options.ranks, start_method="fork")
    sys.exit(0)
