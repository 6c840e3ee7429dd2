import torch
import torchvision


torch.backends.cuda.enable_mem_efficient_sdp(False)
model = torchvision.models.vit_b_16().cuda()
optimizer = torch.optim.AdamW(model.parameters())
for images, labels in torch.utils.data.DataLoader(torch.load("x.pt"), batch_size=64):
    loss = torch.nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
