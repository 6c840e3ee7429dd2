import argparse

import torch
from torch.nn.utils import prune

layer = torch.nn.Linear(512, 512)
prune.l1_unstructured(layer, name="weight", amount=0.5)
prune.remove(layer, "weight")  # 固化
other = torch.nn.Linear(512, 512)
prune.ln_structured(other, name="weight", amount=0.5, n=2, dim=0)
