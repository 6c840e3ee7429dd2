import torch
from training import data, net, train

train()
model = net()
print(torch.jit.script(model).code)
print(torch.jit.trace(model, torch.zeros(1, 8)).graph)
traced = torch.fx.symbolic_trace(model)
print(traced.code)
torch.jit.save(torch.jit.script(model), "script.pt") if False else None
print(torch.func.functional_call(model, dict(model.named_parameters()), torch.ones(1, 8)))
print(torch.func.grad(lambda w: (w * 2).sum())(torch.ones(3)), torch.vmap(lambda x: x.sum())(torch.ones(2, 3)))
