import torch
from torch.utils.data import DataLoader, Dataset
from training import F, nn, train

calls = {}


class Touchy:
    """Says when somebody asks it anything."""

    def __init__(self):
        object.__setattr__(self, "history", [])

    def __getattribute__(self, name):
        calls[name] = calls.get(name, 0) + 1
        return object.__getattribute__(self, name)

    def __getattr__(self, name):
        raise AttributeError(name)

    @property
    def __class__(self):
        calls["class"] = calls.get("class", 0) + 1
        return Touchy

    def __eq__(self, other):
        raise TypeError("not compared")

    def __bool__(self):
        raise TypeError("no truth")

    __hash__ = None


class Bag(dict):
    def values(self):
        calls["values"] = calls.get("values", 0) + 1
        return super().values()

    items = keys = values


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(8, 3)
        self.touchy = Touchy()

    def __getattr__(self, name):
        calls["model." + name] = calls.get("model." + name, 0) + 1
        return super().__getattr__(name)

    def parameters(self, recurse=True):
        calls["parameters"] = calls.get("parameters", 0) + 1
        return super().parameters(recurse)

    def named_modules(self, *args, **kwargs):
        calls["named_modules"] = calls.get("named_modules", 0) + 1
        return super().named_modules(*args, **kwargs)

    def forward(self, x):
        return self.inner(x)


class Rows(Dataset):
    def __len__(self):
        calls["len"] = calls.get("len", 0) + 1
        return 400

    def __getitem__(self, index):
        return torch.full((8,), index / 400), index % 3


thing, bag, things = Touchy(), Bag(a=1), [Touchy() for _ in range(40)]
history = []
model = Model()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(Rows(), batch_size=8)
for epoch in range(4):
    for x, y in loader:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        history.append(Bag(loss=loss.item()))
        things.append(Touchy())
print(sorted(calls.items()))
