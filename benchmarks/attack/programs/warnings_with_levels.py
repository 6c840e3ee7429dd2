import sys
import warnings

import torch
from training import F, data, net, train

warnings.simplefilter("default")


class Noisy(torch.nn.Module):
    def forward(self, x):
        warnings.warn("from forward", stacklevel=2)
        warnings.warn("from two up", stacklevel=4)
        return x * 2

    def train(self, mode=True):
        warnings.warn("from train", stacklevel=2)
        return super().train(mode)


class Writer:
    def write(self, text):
        warnings.warn("from write", stacklevel=2)
        sys.stdout.write(text)


model = torch.nn.Sequential(Noisy(), net())
for _ in range(3):
    train(3, model=model)
    model.eval()
    model.train()
    print("x", file=Writer())
torch.nn.utils.clip_grad_norm(model.parameters(), 1.0)
scheduler = torch.optim.lr_scheduler.StepLR(torch.optim.SGD(model.parameters(), lr=0.1), 1)
scheduler.step()
x = torch.ones(3, requires_grad=True)
torch.autograd.grad((x * 2).sum(), x, create_graph=True)
(x * 2).sum().backward(create_graph=True)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    train(2, model=model)
print(len(caught), sorted({(item.filename.rsplit("/")[-1], item.lineno, str(item.message)) for item in caught}))
print(
    sorted(
        name
        for name, module in sys.modules.items()
        if getattr(module, "__warningregistry__", None) and "gpudoctor" in name
    )
)
