import torch
import torch.nn as nn
import torchvision
from torchvision import transforms


def main():
    device = torch.device("cuda")
    data = torchvision.datasets.ImageFolder("data", transforms.Compose([transforms.RandomResizedCrop(224), transforms.ToTensor()]))
    # healthy_unknown_sizes: data = torchvision.datasets.ImageFolder("data", transforms.ToTensor())
    loader = torch.utils.data.DataLoader(data, batch_size=128, num_workers=8, pin_memory=True, shuffle=True)
    model = torchvision.models.resnet50(num_classes=1000).to(device)
    # healthy_transformer: model = torchvision.models.vit_b_16().to(device)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for epoch in range(90):
        for images, labels in loader:
            images, labels = images.to(device, non_blocking=True), labels.to(device, non_blocking=True)
            optimizer.zero_grad(set_to_none=True)
            output = model(images)
            loss = criterion(output, labels)  # mean over the batch
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    main()
