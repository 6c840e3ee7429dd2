import torch
import torchvision

torch.backends.cuda.matmul.allow_tf32 = False
device = torch.device("cuda")
model = torchvision.models.resnet50().to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for images, labels in torch.utils.data.DataLoader(torch.load("images.pt"), batch_size=64):
    with torch.autocast(device_type="cuda", dtype=torch.bfloat16):
        loss = torch.nn.functional.cross_entropy(model(images.to(device)), labels.to(device))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
