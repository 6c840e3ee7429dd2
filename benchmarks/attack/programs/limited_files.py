import resource

from torch.utils.data import DataLoader
from training import data, train

resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))
train()
files = []
try:
    while True:
        files.append(open("/dev/null"))
except OSError as error:
    print(type(error).__name__, len(files) > 10)
del files
train(5)
print(next(iter(DataLoader(data(), batch_size=4)))[1])
