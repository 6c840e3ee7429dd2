"""One rank's shard holds a label that the model has no class for."""

import torch
from job import VOCABULARY, Job, main
from torch.nn import functional as F


class Labels(Job):
    def loss(self, tokens: torch.Tensor) -> torch.Tensor:
        logits = self.ddp(tokens[:, :-1])
        labels = tokens[:, 1:].reshape(-1).clone()
        if self.victim and self.step == self.options.at:
            labels[3] = VOCABULARY + 1
        return F.cross_entropy(logits.reshape(-1, VOCABULARY), labels)


main(Labels)
