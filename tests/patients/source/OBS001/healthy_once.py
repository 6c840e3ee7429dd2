import torch
from thop import profile
from torch.profiler import profile as torch_profile

model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = torch.utils.data.DataLoader(torch.randn(100000, 8), batch_size=16, num_workers=4)

macs, params = profile(model, inputs=(torch.randn(1, 8),))
print(f"{macs} MACs, {params} parameters")
for step, x in enumerate(loader):
    if step == 20:
        prof = torch_profile()
        prof.start()
    optimizer.zero_grad()
    loss = model(x).pow(2).mean()
    loss.backward()
    optimizer.step()
    if step == 25:
        prof.stop()
        prof.export_chrome_trace("trace.json")
    if step % 1000 == 0:
        macs, _ = profile(model, inputs=(x,))
