import copy
import io
import pickle

import torch
from torch.utils.data import DataLoader
from training import data, train

model, optimizer = train(60)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2)
loader = DataLoader(data(), batch_size=4)
next(iter(loader))
for thing in (model, optimizer, scheduler, loader):
    other = copy.deepcopy(thing)
    again = pickle.loads(pickle.dumps(thing))
    print(
        type(other).__name__,
        sorted(vars(other)) == sorted(vars(thing)),
        sorted(vars(again)),
        len(pickle.dumps(thing)),
    )
buffer = io.BytesIO()
torch.save(model, buffer)
print(len(buffer.getvalue()))
model(torch.zeros(1, 8))
torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, "checkpoint.pt")
print(sorted(dir(model)) == sorted(dir(copy.deepcopy(model))), list(model.state_dict()))
