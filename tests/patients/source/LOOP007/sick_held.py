import torch


def to_device(batch, device):
    return {name: tensor.to(device, non_blocking=True) for name, tensor in batch.items()}


class AsyncLoader:
    """Holds one batch ahead, and never hands out the one that it holds at the end."""

    def __init__(self, dataloader, device):
        self.dataloader = dataloader
        self.device = device
        self.stream = torch.cuda.Stream()

    def _preload(self, batch):
        with torch.cuda.stream(self.stream):
            return to_device(batch, self.device)

    def __iter__(self):
        iterator = iter(self.dataloader)
        following = self._preload(next(iterator))
        for batch in iterator:
            torch.cuda.current_stream().wait_stream(self.stream)
            current = following
            for tensor in current.values():
                tensor.record_stream(torch.cuda.current_stream())
            following = self._preload(batch)
            yield current
