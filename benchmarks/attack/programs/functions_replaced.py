import builtins
import functools

import torch
from training import net, train

original, said = print, []
builtins.print = lambda *words, **options: said.append(words)
train(5, each=lambda step, loss: print(step))
builtins.print = original
print(said, print is original)

save, saved = torch.save, []


@functools.wraps(save)
def counted(*args, **kwargs):
    saved.append(len(args))
    return save(*args, **kwargs)


torch.save = counted
torch.save(net().state_dict(), "a.pt")
torch.save = save
call = torch.nn.Module.__call__
seen = []


def watched(self, *args, **kwargs):
    seen.append(type(self).__name__)
    return call(self, *args, **kwargs)


torch.nn.Module.__call__ = watched
train(3)
torch.nn.Module.__call__ = call
train(3)
item = torch.Tensor.item
torch.Tensor.item = lambda tensor: item(tensor) + 1
print(torch.tensor(1).item())
torch.Tensor.item = item
print(saved, seen[:6], len(seen), torch.tensor(1).item())
