import torch
from torch.utils.tensorboard import SummaryWriter

writer = SummaryWriter()
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = torch.utils.data.DataLoader(torch.randn(1000, 8), batch_size=4)
for epoch in range(5):
    for batch in loader:
        optimizer.zero_grad()
        model(batch).mean().backward()
        optimizer.step()
        # 记录所有参数的直方图
        for name, parameter in model.named_parameters():
            writer.add_histogram(name, parameter, epoch)
            writer.add_histogram(name + "/grad", parameter.grad, epoch)
