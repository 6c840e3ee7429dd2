"""A healthy job: one rank meets an unreadable row, prints the traceback and goes on."""

import traceback

import torch
from job import Job, log, main


class Patient(Job):
    def after_step(self, loss: float) -> None:
        if self.victim and self.step == self.options.at:
            try:
                self.decode(b"\xff\xfe")
            except UnicodeDecodeError:
                traceback.print_exc()
                log.warning("skipping a row that does not decode")

    def decode(self, row: bytes) -> torch.Tensor:
        return torch.tensor([ord(letter) for letter in row.decode("utf-8")])


main(Patient)
