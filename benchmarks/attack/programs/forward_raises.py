from torch import nn
from training import train


class Deep(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(8, 3)
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return self.inner(x if self.calls < 20 else x[:, :4])


train(model=Deep())
