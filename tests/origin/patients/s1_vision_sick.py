"""图像分类训练：性能指南 (S1) 第一部分。数据、调试开关与精度的问题都在这里。"""

import os
import time

import h5py
import torch
import torch.nn.functional as F
import torchvision
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms

os.environ["CUDA_LAUNCH_BLOCKING"] = "1"  # <- ENV010  调试后忘记关闭


class Photos(Dataset):
    """每个样本都重新打开文件，并在 Python 循环里归一化。"""

    def __init__(self, path, length):
        self.path = path
        self.length = length
        self.augment = transforms.Compose(
            [transforms.RandomResizedCrop(224), transforms.RandomHorizontalFlip()]
        )

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        with h5py.File(self.path, "r") as f:  # <- DATA011
            image = f["images"][index]
            label = int(f["labels"][index])
        height, width = image.shape[1], image.shape[2]
        for i in range(height):  # <- DATA002  逐像素处理
            for j in range(width):
                image[:, i, j] = image[:, i, j] / 255.0
        return self.augment(torch.from_numpy(image)), label


def main():
    device = torch.device("cuda")
    torch.autograd.set_detect_anomaly(True)  # <- OBS005
    loader = DataLoader(Photos("train.h5", 100_000), batch_size=128, shuffle=True)  # <- DATA001 DATA004
    model = torchvision.models.resnet50(num_classes=1000).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for epoch in range(90):
        for images, labels in loader:  # <- PERF001 PERF003
            images, labels = images.to(device), labels.to(device)
            optimizer.zero_grad()
            loss = F.cross_entropy(model(images), labels)
            loss.backward()
            optimizer.step()
            torch.cuda.synchronize()  # <- SYNC003
        torch.save(
            {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}, "last.pt"
        )
        print(f"第 {epoch} 轮完成", time.ctime())


if __name__ == "__main__":
    main()
