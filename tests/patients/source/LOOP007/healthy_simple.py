"""No overlap, no harm: blocking copies, and a loader that fetches when it is asked."""

import torch


class Loader:
    def __init__(self, loader):
        self.loader = loader
        self.stream = torch.cuda.Stream()
        self.batch = None

    def fetch_next(self, iterator):
        self.batch = next(iterator, None)
        if self.batch is not None:
            with torch.cuda.stream(self.stream):
                self.batch = self.batch.cuda()

    def __iter__(self):
        iterator = iter(self.loader)
        while True:
            self.fetch_next(iterator)
            if self.batch is None:
                break
            yield self.batch


class Fetcher:
    """Returns what it fetches."""

    def __init__(self, loader):
        self.iterator = iter(loader)
        self.held = self.prefetch()

    def prefetch(self):
        self.last = next(self.iterator, None)
        return self.last

    def next(self):
        batch = self.held
        self.held = self.prefetch()
        return batch
