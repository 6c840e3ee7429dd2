import torch
from torch import nn

# 最后一层是 Softmax,但损失函数里已经包含了 softmax
model = nn.Sequential(
    nn.Linear(20, 64),
    nn.ReLU(),
    nn.Linear(64, 5),
    nn.Softmax(dim=1),
)
loss_fn = nn.CrossEntropyLoss(label_smoothing=0.1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = torch.utils.data.DataLoader(
    torch.utils.data.TensorDataset(torch.randn(100, 20), torch.randint(0, 5, (100,))), batch_size=10
)

for epoch in range(10):
    for x, y in loader:
        optimizer.zero_grad()
        loss = loss_fn(model(x), y)
        loss.backward()
        optimizer.step()
