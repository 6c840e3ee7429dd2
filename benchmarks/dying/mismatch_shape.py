"""Ranks reduce a metric per class that they have seen: one rank has seen fewer."""

import torch
import torch.distributed as dist
from job import Job, main


class PerClass(Job):
    def after_step(self, loss: float) -> None:
        if self.step % self.options.at == 0:
            classes = 5 if self.victim else 8
            totals = torch.full((classes,), loss)
            dist.all_reduce(totals)


main(PerClass)
