import torch


class Feeder:
    def __init__(self, loader):
        self.iterator = iter(loader)
        self.side = torch.cuda.Stream()
        self.load_next()

    def load_next(self):
        self.current = next(self.iterator, None)
        if self.current is None:
            return
        with torch.cuda.stream(self.side):
            self.current = self.current.to("cuda", non_blocking=True)

    def next(self):
        """The batch."""
        torch.cuda.current_stream().wait_stream(self.side)
        if self.current is not None:
            self.current.record_stream(torch.cuda.current_stream())
        self.load_next()
        return self.current
