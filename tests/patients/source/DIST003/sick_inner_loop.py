import argparse

import torch
import torch.distributed as dist
import torchvision


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--micro-batches", type=int, default=4)
    args = parser.parse_args()
    dist.init_process_group("nccl")
    model = torch.nn.parallel.DistributedDataParallel(torchvision.models.vit_b_16().cuda())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    batches = iter(torch.utils.data.DataLoader(torch.load("images.pt"), batch_size=16))
    for step in range(10000):
        for micro in range(args.micro_batches):
            images, labels = next(batches)
            loss = torch.nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
            (loss / args.micro_batches).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)


main()
