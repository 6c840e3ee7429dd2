"""A library data set with augmentation, the loader made in a helper and returned with a second one."""

import torch
import torchvision
import torchvision.transforms as T
from torch.utils.data import DataLoader


def get_loaders(root, batch_size):
    train_tf = T.Compose([T.RandomResizedCrop(224), T.RandomHorizontalFlip(), T.ToTensor()])
    train_ds = torchvision.datasets.ImageFolder(root + "/train", transform=train_tf)
    val_ds = torchvision.datasets.ImageFolder(root + "/val", transform=T.ToTensor())
    train_dl = DataLoader(train_ds, batch_size=batch_size, shuffle=True, pin_memory=True)
    val_dl = DataLoader(val_ds, batch_size=batch_size, num_workers=4, pin_memory=True)
    return train_dl, val_dl


def run():
    device = torch.device("cuda:0")
    train_dl, val_dl = get_loaders("imagenette", 128)
    net = torchvision.models.resnet50().to(device)
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    loss_fn = torch.nn.CrossEntropyLoss()
    for epoch in range(10):
        net.train()
        for step, (x, y) in enumerate(train_dl):
            x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
            opt.zero_grad()
            loss_fn(net(x), y).backward()
            opt.step()
        net.eval()
        hits = torch.zeros((), device=device)
        with torch.no_grad():
            for x, y in val_dl:
                hits += (net(x.to(device)).argmax(1) == y.to(device)).sum()
        print(epoch, hits.item())


run()
