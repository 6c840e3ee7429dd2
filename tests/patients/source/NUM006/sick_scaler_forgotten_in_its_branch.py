import sys

import torch
from data import batches

half = "--half" in sys.argv
model = torch.nn.Linear(32, 8).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
guard = torch.cuda.amp.GradScaler()

for number, (x, y) in enumerate(batches("train")):
    with torch.autocast("cuda", dtype=torch.float16, enabled=half):
        loss = torch.nn.functional.cross_entropy(model(x.cuda()), y.cuda())
    if half:
        guard.scale(loss).backward()
        optimizer.step()
    else:
        loss.backward()
        optimizer.step()
    optimizer.zero_grad()
