import functools
import json

import h5py
import numpy as np
import torch
from torch.utils.data import Dataset


class Lazy(Dataset):
    def __init__(self, path, files):
        self.path, self.files, self.file = path, files, None

    def __getitem__(self, index):
        if self.file is None:  # 第一次才打开
            self.file = h5py.File(self.path, "r")
        mapped = np.load(self.path, mmap_mode="r")
        image = np.load(self.files[index])
        name = self.files[index]
        with open(name) as handle:
            meta = json.load(handle)
        return self.file["x"][index], mapped[index], image, meta

    @functools.lru_cache
    def table(self):
        return json.load(open(self.path))


class Kept(Dataset):
    def __init__(self, path):
        self.path = path
        self.data = torch.load(path)

    def __getitem__(self, index):
        return self.data[index]
