import torch
from torch import nn

encoder, head = nn.Linear(8, 8), nn.Linear(8, 1)
opt_encoder = torch.optim.SGD(encoder.parameters(), lr=0.1)
opt_head = torch.optim.SGD(head.parameters(), lr=0.1)
loader = torch.utils.data.DataLoader(torch.randn(100, 8), batch_size=10)

for x in loader:
    loss = head(encoder(x)).mean()
    loss.backward()
    nn.utils.clip_grad_norm_(encoder.parameters(), 1.0)
    opt_encoder.step()
    nn.utils.clip_grad_norm_(head.parameters(), 1.0)
    opt_head.step()
    opt_encoder.zero_grad()
    opt_head.zero_grad()
