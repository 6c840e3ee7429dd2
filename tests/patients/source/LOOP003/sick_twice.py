import torch
from accelerate import Accelerator

accelerator = Accelerator(gradient_accumulation_steps=4)
gradient_accumulation_steps = 4
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = torch.utils.data.DataLoader(torch.randn(100, 4))
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
for x in loader:
    with accelerator.accumulate(model):
        loss = model(x).pow(2).mean()
        loss = loss / gradient_accumulation_steps
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
