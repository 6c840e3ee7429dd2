"""Lines like DeepSpeed's; an epoch ends at a monitored barrier that one rank does not reach in time."""

import logging
import sys
import time
from datetime import timedelta

import torch.distributed as dist
from small import arguments, batch, join, prepared, update


def main() -> None:
    options = arguments()
    rank, _ = join(60.0)
    logging.basicConfig(
        stream=sys.stdout, level=logging.INFO,
        format=f"[%(asctime)s] [%(levelname)s] [%(filename)s:%(lineno)d:%(funcName)s] "
        f"[Rank {rank}] %(message)s",
    )  # fmt: skip
    model, optimizer = prepared()
    for epoch in range(3):
        for number in range(10):
            loss = update(model, optimizer, *batch(number * 64 + rank))
            if rank == 0:
                logging.info("step=%d, skipped=0, lr=[0.05], mom=[0.0]", epoch * 10 + number)
        if rank == options.victim and epoch == 1:
            time.sleep(300)
        logging.info("epoch %d done, loss: %.4f", epoch, loss)
        dist.monitored_barrier(timeout=timedelta(seconds=options.timeout))


main()
