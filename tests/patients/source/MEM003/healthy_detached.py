import torch
from collections import deque


class AverageMeter:
    def __init__(self):
        self.sum = 0
        self.count = 0

    def update(self, value, n=1):
        self.val = value
        self.sum += value * n
        self.count += n


def train(model, loader, optimizer, criterion):
    total, running, correct, count = 0.0, 0.0, 0, 0
    losses, last, numbers = AverageMeter(), deque(maxlen=20), []
    for step, (x, y) in enumerate(loader):
        output = model(x)
        loss = criterion(output, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
        running += loss.detach() * x.size(0)
        losses.update(loss.item(), x.size(0))
        last.append(loss)
        numbers.append(float(loss))
        numbers.append(loss.detach().cpu().mean())
        _, predicted = output.max(1)
        correct += predicted.eq(y).sum()
        correct += (output.argmax(1) == y).sum()
        count += y.size(0)
    return total / count, losses.sum / losses.count


net = torch.nn.Linear(8, 3)
data = torch.utils.data.TensorDataset(torch.randn(100, 8), torch.randint(0, 3, (100,)))
train(net, torch.utils.data.DataLoader(data), torch.optim.SGD(net.parameters(), 0.1), torch.nn.CrossEntropyLoss())
