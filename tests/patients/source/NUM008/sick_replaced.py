import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.fc = nn.Linear(8, width)

    def forward(self, x):
        return self.fc(x)


class Trainer:
    """优化器绑定的是旧模型。"""

    def __init__(self, width):
        self.model = Net(8)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-3)
        self.model = Net(width)  # 换了新的模型
        self.loader = torch.utils.data.DataLoader(torch.randn(64, 8), batch_size=8)

    def fit(self):
        for x in self.loader:
            loss = self.model(x).pow(2).mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()


Trainer(16).fit()
