import torch

model = torch.nn.Linear(8, 1).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = torch.utils.data.DataLoader(torch.randn(1000, 8), batch_size=4)
for epoch in range(5):
    for x in loader:
        optimizer.zero_grad()
        model(x.cuda()).mean().backward()
        optimizer.step()
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, "last.pt")
