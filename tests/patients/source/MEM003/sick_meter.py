import torch


class AverageMeter:
    def __init__(self):
        self.sum = 0
        self.count = 0

    def update(self, value, n=1):
        self.sum += value * n
        self.count += n

    @property
    def average(self):
        return self.sum / self.count


def train(model, loader, optimizer):
    losses = AverageMeter()
    for x, y in loader:
        loss = torch.nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.update(loss, x.size(0))
    return losses.average


net = torch.nn.Linear(8, 1)
data = torch.utils.data.TensorDataset(torch.randn(100, 8), torch.randn(100, 1))
train(net, torch.utils.data.DataLoader(data), torch.optim.SGD(net.parameters(), 0.1))
