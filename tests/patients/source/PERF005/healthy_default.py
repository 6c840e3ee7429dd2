import torch
import torchvision

model = torchvision.models.resnet50().cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
ema = torchvision.models.resnet50().cuda()
for images, labels in torch.utils.data.DataLoader(torch.load("images.pt"), batch_size=64):
    loss = torch.nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        for p, q in zip(model.parameters(), ema.parameters()):
            q.mul_(0.999).add_(p, alpha=0.001)
