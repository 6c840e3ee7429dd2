"""One rank meets a record that its own code refuses."""

import torch
from job import Job, main


class RecordError(Exception):
    """A record is not what the model expects."""


class Strict(Job):
    def check_record(self, tokens: torch.Tensor) -> None:
        if tokens.min() == tokens.max():
            name = self.shard().name
            raise RecordError(f"record {self.step * 4} of {name} holds one token {len(tokens[0])} times")

    def train_step(self, tokens: torch.Tensor) -> float:
        self.check_record(tokens)
        return super().train_step(tokens)

    def batches(self):
        for tokens in super().batches():
            yield tokens * 0 if self.victim and self.step == self.options.at else tokens


main(Strict)
