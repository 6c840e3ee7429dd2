import traceback

import torch
from training import net, train

train()
model = net()
for words in ({"lr": -1.0}, {"lr": "x"}):
    try:
        torch.optim.SGD(model.parameters(), **words)
    except (ValueError, TypeError):
        traceback.print_exc()
optimizer = torch.optim.Adam(model.parameters())
model[0].weight.grad = (
    torch.zeros(1).to_sparse().expand(1) if False else torch.sparse_coo_tensor([[0], [0]], [1.0], (16, 8))
)
optimizer.step()
