import torch
from torch import nn


class Mlp(nn.Module):
    def __init__(self, width=2048):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width))

    def forward(self, x):
        return self.layers(x)


def main():
    torch.set_float32_matmul_precision("highest")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = Mlp().to(device)
    optimizer = torch.optim.Adam(model.parameters())
    for x in torch.utils.data.DataLoader(torch.load("x.pt"), batch_size=512):
        loss = model(x.to(device)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


main()
