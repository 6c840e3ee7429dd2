"""Builds the network and defines a pass; who imports it wraps both as he likes."""

import torch
import torchvision


def build(classes):
    return torchvision.models.resnet50(num_classes=classes).cuda()


def one_pass(net, batches, optimizer):
    for images, labels in batches:
        optimizer.zero_grad(set_to_none=True)
        torch.nn.functional.cross_entropy(net(images.cuda()), labels.cuda()).backward()
        optimizer.step()
