import itertools

import torch

model = torch.nn.Linear(8, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x, held_out = torch.randn(1000, 8), torch.utils.data.DataLoader(torch.randn(100, 8))
for epoch in range(200):
    optimizer.zero_grad()
    model(x).mean().backward()
    optimizer.step()
    model.eval()
    with torch.no_grad():
        for y in held_out:
            model(y)
    model.train()

train_loader = torch.utils.data.DataLoader(torch.randn(1000, 8), batch_size=4)
for batch in train_loader:
    optimizer.zero_grad()
    model(batch).mean().backward()
    optimizer.step()
    with torch.no_grad():  # 只看两个批次
        for y in itertools.islice(held_out, 2):
            model(y)
