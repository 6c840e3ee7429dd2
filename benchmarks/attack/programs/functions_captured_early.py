import gc

first = (print, gc.collect)
from os import fsync

from torch import save
from torch.autograd import backward, grad
from training import train

import torch

train()
print(save is torch.save, backward is torch.autograd.backward, grad is torch.autograd.grad)
with open("file", "w") as stream:
    stream.write("x")
    first[0](fsync(stream.fileno()), first[1]() >= 0)
save({"a": 1}, "a.pt")
