"""蒸馏训练器:教师模型没有关闭梯度。"""

import torch
import torchvision
from torch.nn import functional as F


class Distiller:
    def __init__(self, loader):
        self.teacher_model = torchvision.models.resnet101().cuda().eval()
        self.student_model = torchvision.models.resnet18().cuda()
        self.optimizer = torch.optim.SGD(self.student_model.parameters(), lr=0.1)
        self.loader = loader

    def run(self, epochs=10):
        for _ in range(epochs):
            for images, _labels in self.loader:
                images = images.cuda(non_blocking=True)
                target = self.teacher_model(images)
                loss = F.mse_loss(self.student_model(images), target.detach())
                self.optimizer.zero_grad(set_to_none=True)
                loss.backward()
                self.optimizer.step()


Distiller(torch.utils.data.DataLoader(torchvision.datasets.FakeData(100), batch_size=8)).run()
