import gc
import weakref

import torch
from training import F, data, net, train

gc.disable()
model, optimizer = train(150)
references = [weakref.ref(thing) for thing in (model, optimizer, *model.parameters())]
del model, optimizer
gc.collect()
print([reference() is None for reference in references])
model = net()
scaler = torch.amp.GradScaler("cpu")
x, y = data(8).tensors
for _ in range(3):
    output = model(x)
    loss = F.cross_entropy(output, y)
    scaled = scaler.scale(loss)
    graph = weakref.ref(output)
    kept = weakref.ref(loss)
    del output, loss, scaled
    print(graph() is None, kept() is None)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(30):
    loss = F.cross_entropy(model(x), y)
    reference = weakref.ref(loss)
    loss.backward()
    optimizer.step()
    gradient = weakref.ref(model[0].weight.grad)
    del loss
    optimizer.zero_grad()
    assert reference() is None and gradient() is None
references = [weakref.ref(parameter) for parameter in model.parameters()]
del model, optimizer, scaler
gc.collect()
print([reference() is None for reference in references])
