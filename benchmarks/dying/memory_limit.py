"""One rank keeps what it should let go, until its address space is spent (`ulimit -v`)."""

import resource

import torch
from job import Job, main

MARGIN = 400_000_000
PIECE = 16_000_000


class Hoarder(Job):
    def setup(self) -> None:
        super().setup()
        self.kept: list[torch.Tensor] = []

    def after_step(self, loss: float) -> None:
        if not self.victim:
            return
        if self.step == self.options.at // 2:
            with open("/proc/self/statm") as file:
                used = int(file.read().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (used + MARGIN, resource.RLIM_INFINITY))
        if self.step > self.options.at // 2:
            self.kept.append(torch.zeros(PIECE))


main(Hoarder)
