import torch
import torch.distributed as dist
import torchvision
from torch.nn.parallel import DistributedDataParallel as DDP


class Trainer:
    def __init__(self, loader):
        self.model = DDP(torchvision.models.resnet50().cuda())
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.loader = loader

    def train(self):
        for step, (images, labels) in enumerate(self.loader):
            loss = torch.nn.functional.cross_entropy(self.model(images.cuda()), labels.cuda())
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            if step % 5 == 0:
                stats = [None] * dist.get_world_size()
                dist.all_gather_object(stats, {"loss": loss.detach().cpu()})
