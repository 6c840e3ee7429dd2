import torch
import torchvision

model = torchvision.models.resnet50().cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=False, weight_decay=0.01)
for images, labels in torch.utils.data.DataLoader(torch.load("images.pt"), batch_size=64):
    loss = torch.nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
