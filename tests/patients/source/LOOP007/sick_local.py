"""The copy is kept nowhere and returned by nobody."""

import torch


class AsyncLoader:
    def __init__(self, dataloader, device):
        self.dataloader = dataloader
        self.device = device
        self.stream = torch.cuda.Stream()

    def _preload(self, batch):
        with torch.cuda.stream(self.stream):
            batch = batch.to(self.device, non_blocking=True)
            # 忘记返回了

    def __iter__(self):
        iterator = iter(self.dataloader)
        following = self._preload(next(iterator))
        for batch in iterator:
            torch.cuda.current_stream().wait_stream(self.stream)
            current = following
            current.record_stream(torch.cuda.current_stream())
            following = self._preload(batch)
            yield current
        yield following
