import gc
import inspect
import os
import sys

import torch
from torch.utils.data import DataLoader
from training import train

train()
FUNCTIONS = (
    torch.save,
    torch.jit.save,
    torch.cuda.empty_cache,
    torch.autograd.backward,
    torch.autograd.grad,
    torch.nn.utils.clip_grad_norm_,
    torch.nn.Module.__call__,
    torch.nn.Module.train,
    torch.nn.Module.zero_grad,
    torch.optim.Optimizer.zero_grad,
    DataLoader.__iter__,
    DataLoader.__init__,
    torch.amp.GradScaler.step,
    torch.distributed.all_reduce,
    torch.profiler.profile.__exit__,
    print,
    os.fsync,
    gc.collect,
    sys.exit,
)
for function in FUNCTIONS:
    try:
        print(function.__qualname__, inspect.signature(function))
    except (TypeError, ValueError) as error:
        print(function.__qualname__, type(error).__name__)
    print(inspect.isroutine(function), callable(function))
    print(len(function.__doc__ or ""), function.__module__, function.__name__)
    try:
        print(
            hash(inspect.getsource(function)) == hash(inspect.getsource(function)),
            inspect.getsourcelines(function)[1],
        )
    except TypeError as error:
        print(str(error)[:60])
