import argparse

import torch
from torch.nn.utils import prune

parser = argparse.ArgumentParser()
parser.add_argument("--prune", action="store_true")
args = parser.parse_args()
model = torch.nn.Linear(8, 8)
if args.prune:  # 默认关闭
    prune.random_unstructured(model, "weight", amount=0.2)
alphas = model.prune_low_rank() if hasattr(model, "prune_low_rank") else None
