"""One rank evaluates where the others train on: their collectives differ in kind."""

import torch
import torch.distributed as dist
from job import Job, main


class Evaluates(Job):
    def after_step(self, loss: float) -> None:
        if self.victim and self.step == self.options.at:
            self.evaluate(loss)

    def evaluate(self, loss: float) -> None:
        gathered = [torch.zeros(1) for _ in range(self.world)]
        dist.all_gather(gathered, torch.tensor([loss]))


main(Evaluates)
