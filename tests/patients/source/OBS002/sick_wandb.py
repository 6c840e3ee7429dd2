import torch
import wandb
from torch.utils.data import DataLoader, TensorDataset

wandb.init(project="crops")
loader = DataLoader(TensorDataset(torch.randn(512, 8), torch.randn(512, 1)), batch_size=8, num_workers=2)
model = torch.nn.Linear(8, 1).cuda()
optimizer = torch.optim.AdamW(model.parameters())
for epoch in range(3):
    for step, (x, y) in enumerate(loader):
        loss = torch.nn.functional.mse_loss(model(x.cuda()), y.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        wandb.log({"loss": loss, "epoch": epoch})
