from torch.utils.data import BatchSampler, DataLoader, Dataset, Sampler
from training import F, net, torch, train

train()


class Rows(Dataset):
    def __len__(self):
        print("length of the data")
        return 32

    def __getitem__(self, index):
        return torch.zeros(8), 0


class Order(Sampler):
    def __init__(self):
        pass

    def __len__(self):
        print("length of the sampler")
        return 32

    def __iter__(self):
        print("order")
        return iter(range(32))


class Batches(BatchSampler):
    def __len__(self):
        print("length of the batches")
        return 8


model = net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for loader in (
    DataLoader(Rows(), batch_size=4),
    DataLoader(Rows(), batch_size=4, shuffle=True),
    DataLoader(Rows(), sampler=Order(), batch_size=4),
    DataLoader(Rows(), batch_sampler=Batches(Order(), 4, False)),
):
    for x, y in loader:
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
    print("epoch")
