"""Trains for days and saves nothing."""

import torch
from torch import nn

model = nn.Linear(8, 1).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
loader = torch.utils.data.DataLoader(torch.randn(100, 8), batch_size=10)
for epoch in range(300):
    for x in loader:
        loss = model(x.cuda()).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
    # healthy_weights_only + torch.save(model.state_dict(), f"epoch{epoch}.pt")
# sick_at_the_end + torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, "final.pt")
