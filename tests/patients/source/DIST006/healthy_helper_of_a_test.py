import torch
import torch.distributed as dist
import torchvision
from torch.nn.parallel import DistributedDataParallel


def train(rank):
    model = DistributedDataParallel(torchvision.models.resnet50().cuda(rank))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for images, labels in torch.utils.data.DataLoader(torch.load("images.pt"), batch_size=64):
        loss = torch.nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def main():
    dist.init_process_group("nccl")
    train(dist.get_rank())


def test_rank_on_the_cpu():
    dist.init_process_group(backend="gloo")  # 单元测试
    assert dist.get_rank() == 0


if __name__ == "__main__":
    main()
