import json

from torch.utils.data import Dataset

ANNOTATIONS = "annotations.json"


class Captions(Dataset):
    def __getitem__(self, index):
        with open(ANNOTATIONS) as handle:
            return json.load(handle)[index]
