import torch
import torchvision
from accelerate import Accelerator

accelerator = Accelerator(gradient_accumulation_steps=8)
model = torchvision.models.resnet50()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = torch.utils.data.DataLoader(torch.load("images.pt"), batch_size=64)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
for images, labels in loader:
    with accelerator.accumulate(model):
        loss = torch.nn.functional.cross_entropy(model(images), labels)
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
