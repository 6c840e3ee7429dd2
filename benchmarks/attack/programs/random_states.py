import hashlib
import random

import torch
from torch.utils.data import DataLoader
from training import data, train

random.seed(1)
model, _ = train(200)
for batch in DataLoader(data(), shuffle=True, batch_size=4, num_workers=1):
    print(batch[1].tolist())
print(random.random(), torch.rand(3), torch.initial_seed())
print(
    hashlib.sha256(
        b"".join(
            p.detach().contiguous().view(torch.uint8).numpy().tobytes()
            if False
            else bytes(p.detach().contiguous().view(-1).view(torch.uint8).tolist())
            for p in model.parameters()
        )
    ).hexdigest()
)
