"""One cycle, then the profiler is done."""
import torch

model = torch.nn.Linear(8, 1).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = torch.utils.data.DataLoader(torch.randn(100000, 8), batch_size=16, num_workers=4)

with torch.profiler.profile(
    schedule=torch.profiler.schedule(wait=10, warmup=2, active=5, repeat=1),
    on_trace_ready=torch.profiler.tensorboard_trace_handler("./log"),
) as prof:
    for step, x in enumerate(loader):
        loss = model(x.cuda()).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        prof.step()
