import gc
import weakref

import torch
from training import F, data, net, train

train()


class Failing(torch.optim.SGD):
    @torch.no_grad()
    def step(self, closure=None):
        raise MemoryError("no room")


x, y = data(8).tensors
model = net()
optimizer = Failing(model.parameters(), lr=0.1)
F.cross_entropy(model(x), y).backward()
try:
    optimizer.step()
except MemoryError as error:
    print(error)
references = [weakref.ref(parameter) for parameter in model.parameters()]
del model, optimizer
gc.collect()
print([reference() is None for reference in references])
