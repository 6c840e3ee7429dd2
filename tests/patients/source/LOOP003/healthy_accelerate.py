import torch
from accelerate import Accelerator

accelerator = Accelerator(gradient_accumulation_steps=2)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 10)
loader = torch.utils.data.DataLoader(torch.randn(100, 4))
model, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, loader, scheduler)
for step, x in enumerate(loader):
    with accelerator.accumulate(model):
        loss = model(x).pow(2).mean()
        accelerator.backward(loss)
        if accelerator.sync_gradients:
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
