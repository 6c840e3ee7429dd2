import torch
import torch.nn as nn
import torch.nn.functional as F
from torchvision import datasets, transforms


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 32, 3, 1)
        self.conv2 = nn.Conv2d(32, 64, 3, 1)
        self.fc1 = nn.Linear(9216, 128)
        self.fc2 = nn.Linear(128, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv2(F.relu(self.conv1(x)))), 2)
        return self.fc2(F.relu(self.fc1(torch.flatten(x, 1))))


device = torch.device("cuda")
model = Net().to(device)
optimizer = torch.optim.Adadelta(model.parameters(), lr=1.0)
loader = torch.utils.data.DataLoader(datasets.MNIST("data", transform=transforms.ToTensor()), batch_size=64)
for data, target in loader:
    loss = F.cross_entropy(model(data.to(device)), target.to(device))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
