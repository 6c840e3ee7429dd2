import torch
import torchvision

# healthy_launcher_decides + from accelerate import Accelerator
# healthy_launcher_decides + accelerator = Accelerator()
device = torch.device("cuda")
# healthy_cpu: device = torch.device("cpu")
# healthy_launcher_decides: device = accelerator.device
model = torchvision.models.resnet50().to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = torch.utils.data.DataLoader(torch.load("images.pt"), batch_size=64)
# healthy_launcher_decides + model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
for images, labels in loader:
    with torch.autocast("cuda", dtype=torch.bfloat16):
    # healthy_cpu: if len(images) > 0:
    # healthy_launcher_decides: if len(images) > 0:
        loss = torch.nn.functional.cross_entropy(model(images.to(device)), labels.to(device))
    loss.backward()
    # healthy_launcher_decides: accelerator.backward(loss)
    optimizer.step()
    optimizer.zero_grad()
