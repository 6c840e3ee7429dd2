import h5py
import torch


class Volumes(torch.utils.data.Dataset):
    def __init__(self, path):
        self.path = path
        with h5py.File(path, "r") as f:
            self.length = len(f["x"])

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        with h5py.File(self.path, "r") as f:  # 每次都打开
            return torch.from_numpy(f["x"][index])
