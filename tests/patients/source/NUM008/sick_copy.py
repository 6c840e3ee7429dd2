import copy

import torch

model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(copy.deepcopy(model).parameters(), lr=0.1)
for x in torch.utils.data.DataLoader(torch.randn(64, 8)):
    loss = model(x).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
