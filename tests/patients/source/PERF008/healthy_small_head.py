import torch
import torch.nn as nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(784, 2048)
        self.mid = nn.Linear(2048, 300)
        self.head = nn.Linear(300, 10)
        self.score = nn.Linear(513, 1)

    def forward(self, x):
        return self.head(torch.relu(self.mid(torch.relu(self.up(x)))))


model = Net().cuda()
optimizer = torch.optim.Adam(model.parameters())
for x, y in torch.utils.data.DataLoader(torch.load("x.pt"), batch_size=128):
    loss = nn.functional.cross_entropy(model(x.cuda()), y.cuda())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
