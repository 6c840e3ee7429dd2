"""A small language model trained by DDP over gloo, as a user's script would: what every death starts from.

    torchrun --nproc-per-node 4 benchmarks/dying/exception.py FOLDER --victim 2

A death is a file beside this one that overrides one method of `Job`. `FOLDER` holds the shards, the checkpoints
and small files by which `benchmarks/dying_jobs.py` learns who stands where; nothing of them is in the log.
"""

import argparse
import logging
import os
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset
from tqdm import tqdm

VOCABULARY, WIDTH, LENGTH, BATCH = 256, 32, 16, 4
log = logging.getLogger("train")


class Shard(Dataset[torch.Tensor]):
    """The rows of one file of tokens, a byte a token."""

    def __init__(self, path: Path) -> None:
        with open(path, "rb") as file:
            self.tokens = file.read()

    def __len__(self) -> int:
        return len(self.tokens) // LENGTH

    def __getitem__(self, row: int) -> torch.Tensor:
        return torch.tensor(list(self.tokens[row * LENGTH : (row + 1) * LENGTH]))


class Model(nn.Module):
    """Guesses the next token from this one."""

    def __init__(self, width: int = WIDTH) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, width)
        self.head = nn.Linear(width, VOCABULARY)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.embed(tokens))


class Job:
    """One rank's training; the methods are what a death overrides."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.folder = Path(options.folder)
        self.rank, self.world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        self.victim = self.rank == options.victim
        self.step = 0

    def setup(self) -> None:
        dist.init_process_group("gloo", timeout=timedelta(seconds=self.options.timeout))
        torch.manual_seed(self.options.seed)
        self.model = self.build()
        self.ddp = DistributedDataParallel(self.model)
        self.optimizer = torch.optim.AdamW(self.ddp.parameters(), lr=1e-3)
        if self.rank == 0:
            log.info("world size %d, %d parameters", self.world, sum(p.numel() for p in self.model.parameters()))

    def build(self) -> nn.Module:
        return Model()

    def shard(self) -> Path:
        return self.folder / "shards" / f"train-{self.rank:05d}.bin"

    def dataset(self) -> Dataset[torch.Tensor]:
        return Shard(self.shard())

    def loader(self, data: Dataset[torch.Tensor]) -> DataLoader[torch.Tensor]:
        return DataLoader(data, batch_size=BATCH)

    def batches(self) -> Iterator[torch.Tensor]:
        data = self.dataset()
        while True:
            yield from self.loader(data)

    def loss(self, tokens: torch.Tensor) -> torch.Tensor:
        logits = self.ddp(tokens[:, :-1])
        return F.cross_entropy(logits.reshape(-1, VOCABULARY), tokens[:, 1:].reshape(-1))

    def train_step(self, tokens: torch.Tensor) -> float:
        self.optimizer.zero_grad()
        loss = self.loss(tokens)
        loss.backward()
        self.optimizer.step()
        return loss.item()

    def after_step(self, loss: float) -> None:
        """What a step does beside training: nothing in the plain job."""

    def save(self) -> None:
        path = self.folder / "checkpoints" / f"step-{self.step}.pt"
        log.info("saving checkpoint to %s", path)
        torch.save({"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}, path)

    def report(self, loss: float) -> None:
        log.info("step %d/%d loss %.4f lr 1.00e-03", self.step, self.options.steps, loss)

    def train(self) -> None:
        bar = tqdm(total=self.options.steps, desc="train", disable=self.rank != 0, mininterval=0.0)
        source = self.batches()
        for step in range(1, self.options.steps + 1):
            self.step = step
            loss = self.train_step(next(source))
            bar.update()
            self.report(loss)
            self.after_step(loss)
            (self.folder / "pids" / str(self.rank)).write_text(f"{os.getpid()} {step}")
            if self.rank == 0 and step % self.options.save_every == 0:
                self.save()
            time.sleep(self.options.pause)
        bar.close()

    def run(self) -> None:
        log.info("rank %d of %d starts", self.rank, self.world)
        self.setup()
        self.train()
        dist.barrier()
        dist.destroy_process_group()
        log.info("training complete")


def main(kind: type[Job]) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--victim", type=int, default=-1)
    parser.add_argument("--at", type=int, default=12, help="the step in which it happens")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--save-every", type=int, default=10)
    parser.add_argument("--timeout", type=float, default=60.0)
    parser.add_argument("--pause", type=float, default=0.02)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    logging.basicConfig(
        format="%(asctime)s %(levelname)s [rank " + os.environ["RANK"] + "] %(message)s", level=logging.INFO
    )
    torch.set_num_threads(1)
    kind(options).run()


if __name__ == "__main__":
    main(Job)
