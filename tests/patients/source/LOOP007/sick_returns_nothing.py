"""异步预取:preload 没有返回值,训练循环拿到的是 None。"""

import torch


class PrefetchLoader:
    def __init__(self, loader, device):
        self.loader = loader
        self.device = device
        self.stream = torch.cuda.Stream()
        self.next_batch = None

    def preload(self, iterator):
        try:
            self.next_batch = next(iterator)
        except StopIteration:
            self.next_batch = None
            return
        with torch.cuda.stream(self.stream):
            self.next_batch = {k: v.to(self.device, non_blocking=True) for k, v in self.next_batch.items()}

    def __iter__(self):
        iterator = iter(self.loader)
        batch = self.preload(iterator)
        while batch is not None:
            torch.cuda.current_stream().wait_stream(self.stream)
            for value in batch.values():
                value.record_stream(torch.cuda.current_stream())
            yield batch
            batch = self.preload(iterator)
