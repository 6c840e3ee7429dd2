import argparse
import sys

import torch
import torch.distributed as dist
import torchvision
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group(init_method="env://", backend="gloo")
# sick_literal: dist.init_process_group("gloo")
# sick_option: parser = argparse.ArgumentParser()
# sick_option + parser.add_argument("--backend", default="gloo", help="通信后端")
# sick_option + dist.init_process_group(parser.parse_args().backend, "env://")
# healthy_by_platform: if sys.platform == "win32":
    # healthy_by_platform + dist.init_process_group("gloo")
# healthy_by_platform + else:
    # healthy_by_platform + dist.init_process_group("nccl")
# healthy_nccl: dist.init_process_group(backend="nccl")
# healthy_nccl + objects = dist.new_group(backend="gloo")  # 传对象用
model = DistributedDataParallel(torchvision.models.resnet50().cuda())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for images, labels in torch.utils.data.DataLoader(torch.load("images.pt"), batch_size=64):
    loss = torch.nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
