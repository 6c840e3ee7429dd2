import traceback

import torch
from training import train

train()
for target, thing in (("x.pt", open("lock", "w")), ("missing/x.pt", 1), (3, 1)):
    try:
        torch.save(thing, target)
    except Exception:
        traceback.print_exc()
