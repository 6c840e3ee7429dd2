"""What the programs of other styles share: a tiny classifier over gloo. Nothing here prints."""

import argparse
import os
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--victim", type=int, default=-1)
    parser.add_argument("--at", type=int, default=12)
    parser.add_argument("--timeout", type=float, default=60.0)
    parser.add_argument("--ranks", type=int, default=4, help="of a program that starts its ranks itself")
    return parser.parse_args()


def join(timeout: float) -> tuple[int, int]:
    """Joins the default group; the rank and the number of ranks."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=timedelta(seconds=timeout))
    torch.manual_seed(0)
    return int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


class Classifier(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(100, 16)
        self.head = nn.Linear(16, 10)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.head(self.embed(ids).mean(1))


def prepared() -> tuple[DistributedDataParallel, torch.optim.Optimizer]:
    model = DistributedDataParallel(Classifier())
    return model, torch.optim.SGD(model.parameters(), lr=0.05)


def batch(seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    made = torch.Generator().manual_seed(seed)
    return torch.randint(0, 100, (8, 12), generator=made), torch.randint(0, 10, (8,), generator=made)


def update(model: nn.Module, optimizer: torch.optim.Optimizer, ids: torch.Tensor, labels: torch.Tensor) -> float:
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(ids), labels)
    loss.backward()
    optimizer.step()
    return loss.item()
