from torch.utils.flop_counter import FlopCounterMode
from training import train

model, optimizer = train()
with FlopCounterMode(display=False) as counter:
    train(40, model=model, optimizer=optimizer)
print(
    counter.get_total_flops(),
    sorted((str(a), sorted((str(c), d) for c, d in b.items())) for a, b in counter.get_flop_counts().items()),
)
