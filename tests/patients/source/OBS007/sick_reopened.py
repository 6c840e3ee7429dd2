import json

import torch

model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(3):
    for step, x in enumerate(torch.utils.data.DataLoader(torch.randn(1000, 8), batch_size=4)):
        optimizer.zero_grad()
        loss = model(x).mean()
        loss.backward()
        optimizer.step()
        with open("metrics.jsonl", "a") as f:
            f.write(json.dumps({"step": step, "loss": loss.item()}) + "\n")
