from torch.utils.data import Sampler


class TokenBudget(Sampler):
    def __init__(self, lengths, budget, drop_last=False):
        self.lengths, self.budget = lengths, budget

    def __iter__(self):
        batch, tokens = [], 0
        for i in range(len(self.lengths)):
            if tokens + self.lengths[i] > self.budget:
                yield batch
                batch, tokens = [], 0
            batch.append(i)
            tokens += self.lengths[i]
        if batch:  # 最后一个批次
            yield batch


class Whole(Sampler):
    def __init__(self, dataset, size, drop_last):
        self.dataset, self.size, self.drop_last = dataset, size, drop_last

    def __iter__(self):
        batch = []
        for i in range(len(self.dataset)):
            batch.append(i)
            if len(batch) == self.size:
                yield batch
                batch = []
        if batch and not self.drop_last:
            yield batch


class EvenBatches(Sampler):
    """每个批次样本数固定"""

    def __init__(self, total, size):
        self.total, self.size = total, size

    def __iter__(self):
        batch = []
        for i in range(self.total):
            batch.append(i)
            if len(batch) == self.size:
                yield batch
                batch = []
