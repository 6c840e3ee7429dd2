import torch
import torchvision
from torch.optim import Optimizer


class Lion(Optimizer):
    """逐个参数更新。"""

    def __init__(self, params, lr=1e-4, beta=0.9):
        super().__init__(params, {"lr": lr, "beta": beta})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state["m"] = torch.zeros_like(p)
                state["m"].mul_(group["beta"]).add_(p.grad, alpha=1 - group["beta"])
                p.add_(state["m"].sign(), alpha=-group["lr"])


def main():
    device = torch.device("cuda")
    model = torchvision.models.vit_b_16().to(device)
    optimizer = Lion(model.parameters())
    for images, labels in torch.utils.data.DataLoader(torch.load("images.pt"), batch_size=64):
        loss = torch.nn.functional.cross_entropy(model(images.to(device)), labels.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


main()
