import torch

model = torch.nn.Linear(8, 1).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = torch.utils.data.DataLoader(torch.randn(1000, 8), batch_size=4)
val_loader = torch.utils.data.DataLoader(torch.randn(100, 8), batch_size=4)


@torch.no_grad()
def evaluate():
    model.eval()
    for x in val_loader:
        model(x.cuda())
        torch.cuda.synchronize()
    model.train()


for epoch in range(5):
    for x in loader:
        optimizer.zero_grad()
        try:
            model(x.cuda()).mean().backward()
        except torch.cuda.OutOfMemoryError:
            torch.cuda.synchronize()
            continue
        optimizer.step()
    evaluate()
