import sys

from torch.utils.data import DataLoader, Dataset
from training import train


class Names(Dataset):
    def __len__(self):
        return 6

    def __getitem__(self, index):
        frame, names = sys._getframe(), []
        while frame is not None:
            names.append(frame.f_code.co_name)
            frame = frame.f_back
        if index == 3:
            raise LookupError(" ".join(names))
        return index


train()
for batch in DataLoader(Names(), num_workers=1, batch_size=2):
    print(batch)
