import torch


def evaluate(model, loader):
    model.eval()
    with torch.no_grad():
        for x in loader:
            print(model(x).mean())


def train(model, loader, optimizer):
    model.train()
    for step, x in enumerate(loader):
        optimizer.zero_grad()
        loss = model(x).pow(2).mean()
        loss.backward()
        optimizer.step()
        if step == 0:
            print("first step done")


net = torch.nn.Linear(8, 1)
batches = torch.utils.data.DataLoader(torch.load("rows.pt"), batch_size=4)
for epoch in range(3):
    train(net, batches, torch.optim.SGD(net.parameters(), 0.1))
    evaluate(net, batches)
