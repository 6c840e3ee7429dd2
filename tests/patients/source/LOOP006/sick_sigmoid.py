import torch
from torch import nn


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(16, 4)
        self.act = nn.Sigmoid()

    def forward(self, x):
        return self.act(self.fc(x))


tagger = Tagger()
criterion = nn.BCEWithLogitsLoss()
optimizer = torch.optim.Adam(tagger.parameters())
data = torch.utils.data.TensorDataset(torch.randn(64, 16), torch.rand(64, 4).round())
for x, y in torch.utils.data.DataLoader(data, batch_size=8):
    loss = criterion(tagger(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
