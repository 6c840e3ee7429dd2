import builtins
import os
import posix

import torch
import torch.distributed.distributed_c10d as c10d
from training import train

train()
print(torch.save is torch.serialization.save, os.fsync is posix.fsync, print is builtins.print)
print(torch.nn.Module.__call__ is torch.nn.Module._wrapped_call_impl)
print(torch.distributed.all_reduce is c10d.all_reduce)
print(torch.nn.utils.clip_grad_norm_ is torch.nn.utils.clip_grad.clip_grad_norm_)
print(torch.Tensor.item is torch._C.TensorBase.item, torch.Tensor.item == torch._C.TensorBase.item)
print(
    torch.cuda.synchronize.__code__.co_varnames[:1], torch.save.__code__.co_argcount, torch.save.__kwdefaults__
)
print(
    sorted(name for name in dir(torch) if "gpudoctor" in name),
    sorted(name for name in vars(builtins) if "gpu" in name),
)
