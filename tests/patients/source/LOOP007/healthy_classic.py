"""The prefetcher as it should be, in two styles."""

import torch


class DataPrefetcher:
    def __init__(self, loader):
        self.loader = iter(loader)
        self.stream = torch.cuda.Stream()
        self.preload()

    def preload(self):
        try:
            self.next_input, self.next_target = next(self.loader)
        except StopIteration:
            self.next_input = None
            self.next_target = None
            return
        with torch.cuda.stream(self.stream):
            self.next_input = self.next_input.cuda(non_blocking=True)
            self.next_target = self.next_target.cuda(non_blocking=True)

    def next(self):
        torch.cuda.current_stream().wait_stream(self.stream)
        images, target = self.next_input, self.next_target
        images.record_stream(torch.cuda.current_stream())
        target.record_stream(torch.cuda.current_stream())
        self.preload()
        # sick_last_batch + if self.next_input is None:
            # sick_last_batch + raise StopIteration
        return images, target


class PrefetchLoader:
    def __init__(self, loader, device):
        self.loader, self.device = loader, device
        self.stream = torch.cuda.Stream()

    def __iter__(self):
        batch = None
        for fresh in self.loader:
            with torch.cuda.stream(self.stream):
                fresh = fresh.to(self.device, non_blocking=True)
            if batch is not None:
                yield batch
            torch.cuda.current_stream().wait_stream(self.stream)
            batch = fresh
            batch.record_stream(torch.cuda.current_stream())
        # 最后一个 batch
        if batch is not None:
            yield batch
