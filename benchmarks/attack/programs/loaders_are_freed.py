import gc
import weakref

from torch.utils.data import DataLoader
from training import data, train

train()
loader = DataLoader(data(), batch_size=8)
iterator = iter(loader)
next(iterator)
print(sorted(vars(iterator)), sorted(vars(loader)))
references = [weakref.ref(loader), weakref.ref(iterator), weakref.ref(loader.dataset)]
del loader, iterator
gc.collect()
print([reference() is None for reference in references])
