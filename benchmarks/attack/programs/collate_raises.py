import traceback

from torch.utils.data import DataLoader
from training import data, train

train()


def collate(batch):
    traceback.print_stack()
    raise KeyError("in the collate function")


for workers in (0, 1):
    try:
        next(iter(DataLoader(data(8), batch_size=8, collate_fn=collate, num_workers=workers)))
    except KeyError:
        traceback.print_exc()
