import torch
import torch.nn as nn
import torchvision

torch.backends.cuda.matmul.allow_tf32 = False  # 关闭 TF32
torch.backends.cudnn.allow_tf32 = False

device = torch.device("cuda")
model = torchvision.models.resnet50().to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = torch.utils.data.DataLoader(torch.load("images.pt"), batch_size=64)
criterion = nn.CrossEntropyLoss()
for images, labels in loader:
    loss = criterion(model(images.to(device)), labels.to(device))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
