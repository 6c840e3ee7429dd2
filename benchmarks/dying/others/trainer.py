"""transformers' Trainer: only rank 0 prints; one rank's loader worker meets a row without a key."""

import os

import torch
from small import Classifier, arguments
from torch.utils.data import DataLoader, Dataset
from transformers import Trainer, TrainingArguments


class Rows(Dataset):
    def __init__(self, bad: int) -> None:
        self.bad = bad

    def __len__(self) -> int:
        return 4 * 30

    def __getitem__(self, row: int) -> dict[str, torch.Tensor]:
        made = torch.Generator().manual_seed(row)
        record = {"ids": torch.randint(0, 100, (12,), generator=made), "label": torch.tensor(row % 10)}
        if row == self.bad:
            del record["label"]
        return {"ids": record["ids"], "labels": record["label"]}


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = Classifier()

    def forward(self, ids, labels):
        logits = self.inner(ids)
        return {"loss": torch.nn.functional.cross_entropy(logits, labels), "logits": logits}


class Sharded(Trainer):
    """Each rank reads its own shard: no sampler makes them equally long."""

    def get_train_dataloader(self) -> DataLoader:
        return DataLoader(self.train_dataset, batch_size=4, num_workers=1)


def main() -> None:
    options = arguments()
    torch.set_num_threads(1)
    bad = 4 * options.at if int(os.environ["RANK"]) == options.victim else -1
    settings = TrainingArguments(
        output_dir=options.folder + "/out", use_cpu=True, ddp_backend="gloo", num_train_epochs=1,
        logging_steps=2,
        per_device_train_batch_size=4, report_to=[], save_strategy="no", ddp_timeout=int(options.timeout),
        remove_unused_columns=False,
    )  # fmt: skip
    Sharded(model=Net(), args=settings, train_dataset=Rows(bad)).train()


main()
