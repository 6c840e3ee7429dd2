"""Ranks in pairs gather their metrics in groups of their own; one rank is in a long validation meanwhile."""

import time

import torch
import torch.distributed as dist
from small import arguments, batch, join, prepared, update


def main() -> None:
    options = arguments()
    rank, world = join(options.timeout)
    pairs = [dist.new_group([first, first + 1]) for first in range(0, world, 2)]
    model, optimizer = prepared()
    for number in range(1, 41):
        loss = update(model, optimizer, *batch(number * 64 + rank))
        if number % 4 == 0:
            print(f"[{time.strftime('%H:%M:%S')}] worker {rank}: it {number} loss {loss:.4f}", flush=True)
        if rank == options.victim and number == options.at:
            print(f"[{time.strftime('%H:%M:%S')}] worker {rank}: validating on 50000 images", flush=True)
            time.sleep(300)
        dist.all_reduce(torch.tensor([loss]), group=pairs[rank // 2])


main()
