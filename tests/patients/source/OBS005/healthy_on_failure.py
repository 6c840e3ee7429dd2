import torch

model = torch.nn.Linear(8, 1).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step, x in enumerate(torch.utils.data.DataLoader(torch.randn(1000, 8), batch_size=4)):
    if step == 100:
        torch.cuda.memory._record_memory_history()
    optimizer.zero_grad()
    loss = model(x.cuda()).pow(2).mean()
    if torch.isnan(loss):
        with torch.autograd.detect_anomaly():
            model(x.cuda()).pow(2).mean().backward()
        raise RuntimeError("loss is NaN")
    loss.backward()
    optimizer.step()
    if step == 110:
        torch.cuda.memory._dump_snapshot("snapshot.pickle")
        torch.cuda.memory._record_memory_history(enabled=None)
