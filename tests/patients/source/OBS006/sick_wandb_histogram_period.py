import torch
import wandb


def log_weights(model, step):
    wandb.log({f"w/{n}": wandb.Histogram(p.detach().cpu()) for n, p in model.named_parameters()}, step=step)


def train(model, loader):
    optimizer = torch.optim.AdamW(model.parameters())
    for step, x in enumerate(loader):
        optimizer.zero_grad()
        model(x).mean().backward()
        optimizer.step()
        if step % 25 == 0:
            log_weights(model, step)


train(torch.nn.Linear(8, 1), torch.utils.data.DataLoader(torch.randn(1000, 8)))
