"""Only rank 0 prints. A library ends the process of another rank without a word."""

import os

from small import arguments, batch, join, prepared, update


def main() -> None:
    options = arguments()
    rank, world = join(options.timeout)
    model, optimizer = prepared()
    for number in range(1, 41):
        loss = update(model, optimizer, *batch(number * 64 + rank))
        if rank == 0:
            print(f" | {number:6d} | train {loss:8.5f} | {1000 / world:6.1f} samples/s |", flush=True)
        if rank == options.victim and number == options.at:
            os._exit(7)


main()
