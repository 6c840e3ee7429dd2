import torch

model = torch.nn.TransformerEncoderLayer(64, 4)
optimizer = torch.optim.Adam(model.parameters())
loader = torch.utils.data.DataLoader(torch.randn(1000, 16, 64), batch_size=8)
held_out = torch.utils.data.DataLoader(torch.randn(100, 16, 64), batch_size=8)


def test(net):
    net.eval()
    losses = []
    with torch.inference_mode():
        for x in held_out:
            losses.append(net(x).pow(2).mean().item())
    return sum(losses) / len(losses)


model.train()
for step, x in enumerate(loader):
    loss = model(x).pow(2).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    if step % 100 == 0:
        print(step, test(model))  # 每 100 步评估一次
