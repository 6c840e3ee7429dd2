import torch
from torch import nn

encoder, decoder = nn.Linear(8, 4), nn.Linear(4, 8)
optimizer = torch.optim.SGD(encoder.parameters(), lr=0.1)
optimizer.add_param_group({"params": decoder.parameters(), "lr": 0.01})
both = torch.optim.Adam([{"params": encoder.parameters()}, {"params": decoder.parameters()}])
for x in torch.utils.data.DataLoader(torch.randn(64, 8)):
    loss = decoder(encoder(x)).pow(2).mean()
    optimizer.zero_grad()
    both.zero_grad()
    loss.backward()
    optimizer.step()
    both.step()
decoder = nn.Linear(4, 16)
