import torch


def train(model, loader, epochs=3):
    model = torch.nn.Sequential(torch.nn.Linear(8, 8)).cuda()
    model.half()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(epochs):
        for x, y in loader:
            loss = torch.nn.functional.mse_loss(model(x.half()), y.half())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
