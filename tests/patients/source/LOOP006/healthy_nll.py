import torch
import torch.nn as nn
import torch.nn.functional as F


class Net(nn.Module):
    def __init__(self, probabilities=False):
        super().__init__()
        self.probabilities = probabilities
        self.net = nn.Sequential(nn.Linear(8, 16), nn.Sigmoid(), nn.Linear(16, 4), nn.LogSoftmax(dim=1))
        self.gate = nn.Sequential(nn.Linear(8, 4), nn.Softmax(dim=1))

    def forward(self, x):
        out = self.net(x) * self.gate(x)
        if self.probabilities:
            return torch.softmax(out, dim=1)
        return out


net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
criterion = nn.NLLLoss()
bce = nn.BCELoss()
for x, y in torch.utils.data.DataLoader([(torch.randn(8), 1)] * 8):
    out = net(x)
    loss = criterion(out, y) + bce(torch.sigmoid(out), torch.ones_like(out)) + F.cross_entropy(out, y)
    # 数值稳定:先加一个很小的数
    loss = loss - torch.log(F.softmax(out, dim=1) + 1e-8).mean() * 0.01
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
