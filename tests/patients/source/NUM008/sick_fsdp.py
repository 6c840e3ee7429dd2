import torch
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP

model = torch.nn.TransformerEncoderLayer(64, 4).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
model = FSDP(model)
for x in torch.utils.data.DataLoader(torch.randn(64, 16, 64), batch_size=8):
    loss = model(x.cuda()).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
