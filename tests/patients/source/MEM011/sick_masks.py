import torch
from torch.nn.utils import prune

model = torch.nn.Sequential(torch.nn.Linear(512, 512), torch.nn.Linear(512, 10))
for module in model:
    prune.l1_unstructured(module, name="weight", amount=0.5)  # 剪掉一半
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in torch.utils.data.DataLoader(torch.randn(100, 512)):
    model(x).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
torch.save(model.state_dict(), "pruned.pt")
