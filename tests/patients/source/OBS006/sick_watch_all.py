import torch
import wandb

wandb.init(project="demo")
model = torch.nn.Linear(8, 1)
wandb.watch(model, log="all", log_freq=10)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in torch.utils.data.DataLoader(torch.randn(1000, 8), batch_size=4):
    optimizer.zero_grad()
    model(x).mean().backward()
    optimizer.step()
