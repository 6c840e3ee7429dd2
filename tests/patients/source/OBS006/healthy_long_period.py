import torch
import wandb

run = wandb.init()
model = torch.nn.Linear(8, 1)
run.watch(model, log="all", log_freq=5000)
wandb.watch(model, log=None)
wandb.watch(model, log="gradients", log_freq=500)
