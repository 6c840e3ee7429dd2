import torch
from transformers import get_cosine_schedule_with_warmup

model = torch.nn.Linear(4, 2)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
scheduler = get_cosine_schedule_with_warmup(optimizer, 100, 1000)
loader = torch.utils.data.DataLoader([(torch.randn(4), 1)] * 64, batch_size=8)
for x, y in loader:
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(x), y)
    loss.backward()
    scheduler.step()
    optimizer.step()
