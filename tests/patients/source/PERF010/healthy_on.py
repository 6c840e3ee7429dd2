import torch
import torch.nn as nn
from torchvision import datasets, transforms

torch.backends.cudnn.benchmark = True
# healthy_deterministic: torch.backends.cudnn.benchmark = False
# healthy_deterministic + torch.backends.cudnn.deterministic = True  # 可复现
# sick_written_off: torch.backends.cudnn.benchmark = False  # 关闭自动调优


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 256, 3, padding=1), nn.ReLU(), nn.Conv2d(256, 512, 3, padding=1), nn.ReLU(),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10),
        )

    def forward(self, x):
        return self.features(x)


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = Net().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = datasets.CIFAR10("data", transform=transforms.ToTensor())
    for images, labels in torch.utils.data.DataLoader(data, batch_size=256):
        loss = nn.functional.cross_entropy(model(images.to(device)), labels.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


main()
