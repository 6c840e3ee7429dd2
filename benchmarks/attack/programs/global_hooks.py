import torch
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from training import net, train

order = []
handles = [
    register_optimizer_step_pre_hook(lambda *_: order.append("pre")),
    register_optimizer_step_post_hook(lambda *_: order.append("post")),
    register_module_forward_pre_hook(lambda *_: order.append("in")),
    register_module_forward_hook(lambda *_: order.append("out")),
]
model, optimizer = train(3)
optimizer.register_step_pre_hook(lambda *_: order.append("own"))
train(2, model=model, optimizer=optimizer)
for handle in handles:
    handle.remove()
train(2, model=model, optimizer=optimizer)
print(order)
