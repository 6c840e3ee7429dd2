import os

import numpy as np
from torch.utils.data import Dataset


class Features(Dataset):
    def __init__(self, root):
        self.root = root
        self.count = 1000

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        return np.load(os.path.join(self.root, "features.npy"))[i]
