"""每一步写日志文件."""
import json
import logging

import torch

logger = logging.getLogger(__name__)
LOG_EVERY = 2


def train(model, loader, optimizer, path):
    with open(path, "a") as f:
        for step, batch in enumerate(loader):
            loss = model(batch).mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            if step % LOG_EVERY == 0:  # 记录损失
                logger.info("step %d loss %.4f", step, loss.item())
                f.write(json.dumps({"step": step, "loss": float(loss)}) + "\n")


net = torch.nn.Linear(4, 4)
train(net, torch.utils.data.DataLoader(torch.randn(100, 4)), torch.optim.SGD(net.parameters(), 0.1), "log.jsonl")
