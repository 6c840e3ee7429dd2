import torch

model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.randn(1000, 8)
for epoch in range(200):
    optimizer.zero_grad()
    model(x).mean().backward()
    optimizer.step()
    torch.save(model.state_dict(), "model.pt")
for step in range(40):
    optimizer.zero_grad()
    model(x).mean().backward()
    optimizer.step()
    if step % 5 == 0:  # 整个过程只有 8 次
        torch.save(model.state_dict(), "model.pt")
