import torch
import torchvision

# healthy_allowed + torch.backends.cuda.matmul.allow_tf32 = True
# healthy_allowed + torch.backends.cudnn.allow_tf32 = True
device = torch.device("cuda")
model = torchvision.models.resnet50().to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for images, labels in torch.utils.data.DataLoader(torch.load("images.pt"), batch_size=64):
    loss = torch.nn.functional.cross_entropy(model(images.to(device)), labels.to(device))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
