"""The rows of one rank overflow; its script stops itself when its loss is not finite."""

import math
import sys

import torch
from job import Job, log, main


class Watchful(Job):
    def loss(self, tokens: torch.Tensor) -> torch.Tensor:
        loss = super().loss(tokens)
        return loss * float("inf") * 0 if self.victim and self.step >= self.options.at else loss

    def train_step(self, tokens: torch.Tensor) -> float:
        self.optimizer.zero_grad()
        loss = self.loss(tokens)
        if not math.isfinite(loss.item()):
            self.report(loss.item())
            log.error("Loss is %s, stopping training", loss.item())
            sys.exit(1)
        loss.backward()
        self.optimizer.step()
        return loss.item()


main(Watchful)
