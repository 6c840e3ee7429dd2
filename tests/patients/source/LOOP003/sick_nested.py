import torch

gradient_accumulation_steps = 5 * 8
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def get_batch():
    return torch.randn(8, 4), torch.randn(8, 1)


for it in range(1000):
    for micro_step in range(gradient_accumulation_steps):
        x, y = get_batch()
        loss = torch.nn.functional.mse_loss(model(x), y)
        loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
