"""What keeps the parameters: moves, compile, DDP, SyncBatchNorm; layers without weights."""

import torch
import torchvision
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

model = torchvision.models.resnet18(weights="DEFAULT")
model.fc = nn.Linear(512, 10)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
model = model.cuda()
model = nn.SyncBatchNorm.convert_sync_batchnorm(model)
model = torch.compile(model)
model = DDP(model)
model.avgpool = nn.Identity()
for images, target in torch.utils.data.DataLoader(torchvision.datasets.FakeData(100)):
    loss = nn.functional.cross_entropy(model(images.cuda()), target.cuda())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
