"""The generator that yields the batch before, and forgets the last."""

import torch


class CudaLoader:
    def __init__(self, loader, device):
        self.loader, self.device = loader, device
        self.stream = torch.cuda.Stream(device)

    def __len__(self):
        return len(self.loader)

    def __iter__(self):
        first = True
        for next_images, next_labels in self.loader:
            with torch.cuda.stream(self.stream):
                next_images = next_images.to(self.device, non_blocking=True)
                next_labels = next_labels.to(self.device, non_blocking=True)
            if not first:
                yield images, labels
            else:
                first = False
            torch.cuda.current_stream().wait_stream(self.stream)
            images, labels = next_images, next_labels
            images.record_stream(torch.cuda.current_stream())
            labels.record_stream(torch.cuda.current_stream())
