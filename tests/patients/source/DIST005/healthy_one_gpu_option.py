import argparse
import torch
import torchvision

parser = argparse.ArgumentParser()
parser.add_argument("--ngpu", type=int, default=1, help="GPU 数量")
args = parser.parse_args()
model = torchvision.models.resnet34().cuda()
if args.ngpu > 1:
    model = torch.nn.DataParallel(model, list(range(args.ngpu)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for images, labels in torch.utils.data.DataLoader(torch.load("images.pt"), batch_size=256):
    loss = torch.nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
