import argparse
import logging

import torch
import wandb
from tqdm import tqdm

parser = argparse.ArgumentParser()
parser.add_argument("--log-interval", type=int, default=50)
parser.add_argument("--verbose", action="store_true")
args = parser.parse_args()
logger = logging.getLogger("train")

model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = torch.utils.data.DataLoader(torch.load("rows.pt"), batch_size=4)
for epoch in range(5):
    bar = tqdm(loader)
    for step, x in enumerate(bar):
        optimizer.zero_grad()
        loss = model(x).pow(2).mean()
        loss.backward()
        optimizer.step()
        if not torch.isfinite(loss):
            print("loss is not finite, stopping")
            raise SystemExit(1)
        logger.debug("step %d", step)
        if args.verbose:
            print(step)
        if step % args.log_interval == 0:
            wandb.log({"loss": loss.item()})
            bar.set_postfix(loss=loss.item())
    print(f"epoch {epoch} done")
