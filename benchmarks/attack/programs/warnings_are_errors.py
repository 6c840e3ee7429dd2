import warnings

import torch
from training import net, train

train()
warnings.simplefilter("error")
train()
optimizer = torch.optim.SGD(net().parameters(), lr=0.1)
torch.optim.lr_scheduler.StepLR(optimizer, 1).step()
