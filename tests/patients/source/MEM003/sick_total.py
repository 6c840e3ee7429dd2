import torch
import torch.nn.functional as F


def train(model, device, train_loader, optimizer, epoch):
    model.train()
    total_loss = 0
    for data, target in train_loader:
        data, target = data.to(device), target.to(device)
        optimizer.zero_grad()
        output = model(data)
        loss = F.nll_loss(output, target)
        loss.backward()
        optimizer.step()
        total_loss += loss
    print(f"epoch {epoch}: {total_loss / len(train_loader):.4f}")


net = torch.nn.Sequential(torch.nn.Linear(8, 3), torch.nn.LogSoftmax(1))
sets = torch.utils.data.TensorDataset(torch.randn(100, 8), torch.randint(0, 3, (100,)))
for number in range(3):
    train(net, "cpu", torch.utils.data.DataLoader(sets), torch.optim.SGD(net.parameters(), 0.1), number)
