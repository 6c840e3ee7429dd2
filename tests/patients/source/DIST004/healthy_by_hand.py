import torch
import torch.distributed as dist
import torchvision


def average_gradients(model):
    size = float(dist.get_world_size())
    for param in model.parameters():
        dist.all_reduce(param.grad.data, op=dist.ReduceOp.SUM)
        param.grad.data /= size


dist.init_process_group("nccl")
model = torchvision.models.resnet50().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for images, labels in torch.utils.data.DataLoader(torch.load("images.pt"), batch_size=64):
    loss = torch.nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
    optimizer.zero_grad()
    loss.backward()
    average_gradients(model)
    optimizer.step()
