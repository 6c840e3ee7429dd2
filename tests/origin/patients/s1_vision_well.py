"""图像分类训练：同一脚本，已按指南修复。"""

import time

import h5py
import torch
import torch.nn.functional as F
import torchvision
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms


class Photos(Dataset):
    """文件在每个 worker 里只打开一次。"""

    def __init__(self, path, length):
        self.path = path
        self.length = length
        self.file = None
        self.augment = transforms.Compose(
            [transforms.RandomResizedCrop(224), transforms.RandomHorizontalFlip()]
        )

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        if self.file is None:
            self.file = h5py.File(self.path, "r")
        image = self.file["images"][index] / 255.0
        return self.augment(torch.from_numpy(image)), int(self.file["labels"][index])


def main():
    device = torch.device("cuda")
    loader = DataLoader(
        Photos("train.h5", 100_000),
        batch_size=128,
        shuffle=True,
        num_workers=8,
        pin_memory=True,
        persistent_workers=True,
    )
    model = torch.compile(torchvision.models.resnet50(num_classes=1000).to(device))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for epoch in range(90):
        for images, labels in loader:
            images, labels = images.to(device, non_blocking=True), labels.to(device, non_blocking=True)
            optimizer.zero_grad()
            with torch.autocast("cuda", dtype=torch.bfloat16):
                loss = F.cross_entropy(model(images), labels)
            loss.backward()
            optimizer.step()
        torch.save(
            {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}, "last.pt"
        )
        print(f"第 {epoch} 轮完成", time.ctime())


if __name__ == "__main__":
    main()
