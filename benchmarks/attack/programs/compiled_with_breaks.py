import os

import torch
import torch._dynamo
from training import F, data, net, train

train()
os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # Dynamo writes the time of day there
model = net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def step(x, y):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    print("loss", loss.item() > 0)
    return loss


compiled = torch.compile(step, backend="eager")
x, y = data(8).tensors
for _ in range(4):
    compiled(x, y).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
whole = torch.compile(model, backend="eager", fullgraph=True)
for _ in range(4):
    F.cross_entropy(whole(x), y).backward()
print(dict(torch._dynamo.utils.counters["stats"]), dict(torch._dynamo.utils.counters["frames"]))
print(len(torch._dynamo.utils.counters["graph_break"]))
explained = torch._dynamo.explain(step)(x, y)
print(explained.graph_count, explained.graph_break_count, explained.op_count)
clip = torch.compile(
    lambda: torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0), backend="eager", fullgraph=True
)
print(clip().item() >= 0)
switch = torch.compile(lambda x: (model.train(False), model(x))[1], backend="eager")
print(switch(x).shape)
