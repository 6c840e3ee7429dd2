import torch
import torch.nn as nn


class Gate(nn.Module):
    def __init__(self, dim, experts):
        super().__init__()
        self.router = nn.Linear(dim, experts)
        self.experts = nn.Parameter(torch.randn(experts, dim, dim))

    def forward(self, x):
        weights = torch.softmax(self.router(x), dim=-1)
        y = torch.einsum("bd,edf->bef", x, self.experts)
        return (weights.unsqueeze(-1) * y).sum(1)


model = Gate(512, 8).cuda()
optimizer = torch.optim.AdamW(model.parameters())
for x in torch.utils.data.DataLoader(torch.load("x.pt"), batch_size=8):
    loss = model(x.cuda()).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
