import copy
import gc
import logging
import os
import pickle
import sys

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader
from training import train

train()
FUNCTIONS = (
    torch.save,
    torch.jit.save,
    torch.cuda.empty_cache,
    torch.cuda.synchronize,
    torch.autograd.backward,
    torch.autograd.grad,
    torch.nn.utils.clip_grad_norm_,
    torch.nn.utils.clip_grad_value_,
    os.fsync,
    os.fdatasync,
    gc.collect,
    print,
    sys.exit,
    torch.nn.Module.__call__,
    torch.nn.Module.train,
    torch.nn.Module.zero_grad,
    torch.optim.Optimizer.zero_grad,
    torch.optim.Optimizer.__init__,
    DataLoader.__iter__,
    DataLoader.__init__,
    logging.Logger.handle,
    torch.profiler.profile.__enter__,
    torch.Tensor.item,
    torch.Tensor.tolist,
    torch.utils.data._utils.worker._worker_loop,
    dist.all_reduce,
    dist.barrier,
)
for function in FUNCTIONS:
    name = f"{function.__module__}.{function.__qualname__}"
    print(name, pickle.loads(pickle.dumps(function)) is function, pickle.dumps(function))
    print(copy.copy(function) is function, copy.deepcopy(function) is function)
