import argparse
import torch
import torchvision

parser = argparse.ArgumentParser()
parser.add_argument("--data-parallel", action="store_true")
# healthy_one_gpu_option: parser.add_argument("--ngpu", type=int, default=1, help="GPU 数量")
args = parser.parse_args()
model = torchvision.models.resnet34().cuda()
if args.data_parallel:
# healthy_one_gpu_option: if args.ngpu > 1:
    model = torch.nn.DataParallel(model)
    # healthy_one_gpu_option: model = torch.nn.DataParallel(model, list(range(args.ngpu)))
    # healthy_ddp_too: model = torch.nn.parallel.DistributedDataParallel(model, device_ids=[0])
# healthy_ddp_too + else:
    # healthy_ddp_too + model = torch.nn.DataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for images, labels in torch.utils.data.DataLoader(torch.load("images.pt"), batch_size=256):
    loss = torch.nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
