import torch
import torchvision

model = torchvision.models.resnet50().cuda()
# healthy_cpu: model = torchvision.models.resnet50()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=False, weight_decay=0.01)
# healthy_fused: optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True, weight_decay=0.01)
for images, labels in torch.utils.data.DataLoader(torch.load("images.pt"), batch_size=64):
    loss = torch.nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
    # healthy_cpu: loss = torch.nn.functional.cross_entropy(model(images), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
