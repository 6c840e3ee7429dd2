import random

from torch.utils.data import Sampler


class TokenBudget(Sampler):
    """按 token 数组成批次"""

    def __init__(self, dataset, budget):
        self.dataset = dataset
        self.budget = budget

    def __iter__(self):
        lengths = [len(self.dataset[i]["input_ids"]) for i in range(len(self.dataset))]
        order = sorted(range(len(lengths)), key=lengths.__getitem__)
        random.shuffle(order)
        batch, tokens = [], 0
        for i in order:
            if tokens + lengths[i] > self.budget:
                yield batch
                batch, tokens = [], 0
            batch.append(i)
            tokens += lengths[i]
