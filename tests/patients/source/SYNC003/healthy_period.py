import argparse
import time

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--time-steps", action="store_true")
args = parser.parse_args()
model = torch.nn.Linear(8, 1).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = torch.utils.data.DataLoader(torch.randn(1000, 8), batch_size=4)
torch.cuda.synchronize()
start = time.time()
for epoch in range(5):
    for step, x in enumerate(loader):
        optimizer.zero_grad()
        loss = model(x.cuda()).pow(2).mean()
        loss.backward()
        optimizer.step()
        if args.time_steps:
            torch.cuda.synchronize()
        if step % 100 == 0:  # 每 100 步计时一次
            torch.cuda.synchronize()
            print(time.time() - start)
    torch.cuda.synchronize()
    print("epoch", time.time() - start)
