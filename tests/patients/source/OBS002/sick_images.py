import torch
from torch.utils.tensorboard import SummaryWriter

writer = SummaryWriter()
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = torch.utils.data.DataLoader(torch.randn(1000, 8), batch_size=4)
for step, x in enumerate(loader):
    optimizer.zero_grad()
    loss = model(x).pow(2).mean()
    loss.backward()
    optimizer.step()
    if step % 5 == 0:
        writer.add_images("batch", x.view(4, 1, 2, 4), step)
