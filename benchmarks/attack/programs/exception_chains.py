import sys
import traceback

import torch
from training import train

train()


def inner():
    try:
        torch.autograd.grad(torch.ones(1), torch.ones(1))
    except RuntimeError as error:
        raise LookupError("outer") from error


try:
    inner()
except LookupError as error:
    text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    print(
        text,
        len(traceback.extract_tb(error.__traceback__)),
        len(traceback.extract_tb(error.__cause__.__traceback__)),
    )
try:
    torch.autograd.backward(3)
except Exception:
    print([frame.name for frame in traceback.extract_tb(sys.exc_info()[2])])
inner()
