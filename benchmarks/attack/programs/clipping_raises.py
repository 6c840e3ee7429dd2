import torch
from training import net, train

model, _ = train()
for parameter in model.parameters():
    parameter.grad = torch.full_like(parameter, float("nan"))
torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, error_if_nonfinite=True)
