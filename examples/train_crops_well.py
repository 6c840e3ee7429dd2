"""Train a small classifier on image crops: the healthy twin of train_crops.py.

The crops are made on first use (a few hundred compressed files in a scratch folder), so the script runs anywhere
with torch and numpy:  python examples/train_crops_well.py --epochs 1
"""

import argparse
import os
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torch.utils.flop_counter import FlopCounterMode

CLASSES = 4


def make_crops(folder: Path, count: int, size: int) -> list[Path]:
    """Write crops of stripes and noise, one compressed file each; the class is the stripes' direction."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    y, x = np.mgrid[0:size, 0:size]
    paths = []
    for number in range(count):
        label = number % CLASSES
        angle = np.pi * label / CLASSES
        stripes = 127 * (1 + np.sin((x * np.cos(angle) + y * np.sin(angle)) / 3))
        crop = np.clip(stripes[..., None] + rng.normal(0, 40, (size, size, 3)), 0, 255).astype(np.uint8)
        path = folder / f"crop_{number:05d}_{label}.npz"
        if not path.exists():
            np.savez_compressed(path, crop=crop)
        paths.append(path)
    return paths


class Crops(Dataset):
    def __init__(self, paths: list[Path]) -> None:
        self.paths = paths

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        path = self.paths[index]
        with np.load(path) as archive:
            crop = archive["crop"]
        if np.random.rand() < 0.5:
            crop = crop[:, ::-1].copy()
        image = torch.from_numpy(crop).permute(2, 0, 1).float() / 255
        return image, int(path.stem.rsplit("_", 1)[1])


class Net(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, 3, stride=2, padding=1)
        self.conv2 = nn.Conv2d(width, 2 * width, 3, stride=2, padding=1)
        self.head = nn.Linear(2 * width, CLASSES)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        features = F.relu(self.conv2(F.relu(self.conv1(images))))
        return self.head(features.mean(dim=(2, 3)))


def count_flops(model: nn.Module, images: torch.Tensor) -> int:
    """Floating-point operations of one forward pass; the same for each batch of this shape."""
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model(images)
    return counter.get_total_flops()


def train_epoch(model, loader, optimizer, device, epoch, log, log_every):
    model.train()
    total_loss = torch.zeros((), device=device)
    correct = torch.zeros((), device=device)
    started = time.perf_counter()
    for step, (images, labels) in enumerate(loader):
        images, labels = images.to(device, non_blocking=True), labels.to(device, non_blocking=True)

        logits = model(images)
        loss = F.cross_entropy(logits, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

        total_loss += loss.detach()
        correct += (logits.argmax(1) == labels).sum()
        if step % log_every == 0:
            log.write(f"{epoch},{step},{loss.item():.5f},{time.perf_counter() - started:.4f}\n")
    return total_loss.item() / len(loader), correct.item() / len(loader.dataset)


def save(path: Path, model: nn.Module, optimizer: torch.optim.Optimizer, epoch: int) -> None:
    """All that a resumed run needs, in one step: a job that is killed here leaves the file before it."""
    if int(os.environ.get("RANK", "0")) > 0:
        return
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}
    torch.save(state, path.with_suffix(".new"))
    path.with_suffix(".new").replace(path)


def resume(path: Path, model: nn.Module, optimizer: torch.optim.Optimizer) -> int:
    """The epoch to go on with."""
    if not path.exists():
        return 0
    state = torch.load(path, map_location="cpu", weights_only=True)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    return state["epoch"] + 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path(tempfile.gettempdir()) / "gpudoctor-crops")
    parser.add_argument("--crops", type=int, default=512)
    parser.add_argument("--size", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--width", type=int, default=16)
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--log-every", type=int, default=50)
    parser.add_argument("--resume", action="store_true", help="go on where a job before this one was stopped")
    args = parser.parse_args()

    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    dataset = Crops(make_crops(args.data, args.crops, args.size))
    loader = DataLoader(
        dataset,
        batch_size=args.batch_size,
        shuffle=True,
        num_workers=args.workers,
        persistent_workers=args.workers > 0,
        pin_memory=device.type == "cuda",
    )
    model = Net(args.width).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    sample = torch.zeros(args.batch_size, 3, args.size, args.size, device=device)
    print(f"{count_flops(model, sample):,} FLOPs a forward pass of {args.batch_size} crops")
    checkpoint = args.data / "checkpoint.pt"
    first = resume(checkpoint, model, optimizer) if args.resume else 0
    with open(args.data / "log.csv", "w") as log:
        for epoch in range(first, args.epochs):
            loss, accuracy = train_epoch(model, loader, optimizer, device, epoch, log, args.log_every)
            print(f"epoch {epoch}: mean loss {loss:.4f}, accuracy {accuracy:.1%}")
            save(checkpoint, model, optimizer, epoch)
    torch.save(model.state_dict(), args.data / "model.pt")


if __name__ == "__main__":
    main()
