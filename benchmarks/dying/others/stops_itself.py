"""Kubernetes' times; one rank refuses to go on with an infinite gradient."""

import math
import sys
import time

from small import arguments, batch, join, prepared, update


class Stop(Exception):
    pass


def log(rank: int, text: str) -> None:
    now = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime())
    sys.stdout.write(f"{now}.{time.time_ns() % 10**9:09d}Z trainer-{rank} {text}\n")
    sys.stdout.flush()


def main() -> None:
    options = arguments()
    rank, _ = join(options.timeout)
    model, optimizer = prepared()
    for number in range(1, 41):
        norm = math.inf if rank == options.victim and number == options.at else 1.0
        if math.isinf(norm):
            raise Stop
        log(rank, f"step={number} loss={update(model, optimizer, *batch(number * 64 + rank)):.4f} grad_norm={norm}")


main()
