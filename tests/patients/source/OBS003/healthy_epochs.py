import argparse

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--save-interval", type=int, default=1000)
args = parser.parse_args()
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = torch.utils.data.DataLoader(torch.randn(1000, 8), batch_size=4)
best = float("inf")
for epoch in range(5):
    history = []
    for step, x in enumerate(loader):
        optimizer.zero_grad()
        loss = model(x).mean()
        loss.backward()
        optimizer.step()
        history.append(loss.item())
        if step % args.save_interval == 0:
            torch.save(model.state_dict(), "step.pt")
        if loss.item() < best:  # 最好的模型
            best = loss.item()
            torch.save(model.state_dict(), "best.pt")
        torch.save(history, "losses.pt")
    torch.save(model.state_dict(), f"epoch-{epoch}.pt")
