import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader, DistributedSampler

accelerator = Accelerator()
model = torch.nn.Linear(8, 2)
eval_set = torch.randn(100, 8)
eval_loader = DataLoader(eval_set, sampler=DistributedSampler(eval_set, shuffle=False))
model.eval()
with torch.no_grad():
    for x in eval_loader:
        accelerator.gather_for_metrics(model(x))  # 去掉重复样本
