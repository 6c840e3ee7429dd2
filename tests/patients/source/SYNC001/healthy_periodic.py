"""A read every hundred steps."""

import torch
import torch.nn as nn
from tqdm import tqdm
from torch.utils.data import DataLoader, TensorDataset

DEBUG, RATE, SCALE = False, 0.1, 2
device = torch.device("cuda")
# healthy_cpu: device = torch.device("cpu")
data = TensorDataset(torch.randn(1000, 8), torch.randint(0, 2, (1000,)))
loader = DataLoader(data, batch_size=32, num_workers=2, pin_memory=True)
model = nn.Linear(8, 2).to(device)
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

for epoch in range(3):
    running = 0.0
    correct = 0
    # sick_progress_bar + loader = tqdm(loader)
    for step, (x, y) in enumerate(loader):
        x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
        optimizer.zero_grad()
        out = model(x)
        loss = criterion(out, y)
        # sick_three_reads + running += loss.item()
        loss.backward()
        # sick_three_reads + correct += (out.argmax(1) == y).sum().item()
        optimizer.step()
        if step % 100 == 0:
        # sick_three_reads: if loss > 10:
        # sick_print_every_step: norm = float(model.weight.grad.norm())
        # sick_progress_bar: loader.set_postfix(loss=loss.item())
        # healthy_switch_off: if DEBUG:
        # healthy_plain_numbers: print(step, int(x.shape[0]), float(RATE) * int(SCALE), float(len(loader)) + x.size(0))
        # healthy_cpu: running += loss.item()
        # healthy_on_device: running += loss.detach()
        # healthy_evaluation: pass
            print(f"epoch {epoch} loss {loss.item():.3f}")
            # sick_three_reads: print("large")
        # sick_print_every_step: print(f"step {step} loss {loss}", loss.detach().cpu().numpy())
        # sick_progress_bar: pass
        # healthy_plain_numbers: pass
        # healthy_cpu: correct += (out.argmax(1) == y).sum().item()
        # healthy_cpu + print(loss)
        # healthy_on_device: correct += (out.argmax(1) == y).sum()
        # healthy_evaluation: pass
    # healthy_on_device + print((running / len(loader)).item(), correct.item())
    # healthy_evaluation + model.eval()
    # healthy_evaluation + hits = 0
    # healthy_evaluation + with torch.no_grad():
        # healthy_evaluation + for x, y in loader:
            # healthy_evaluation + hits += (model(x.to(device)).argmax(1).cpu() == y).sum().item()
    # healthy_evaluation + model.train()
    # healthy_evaluation + print(epoch, hits)
