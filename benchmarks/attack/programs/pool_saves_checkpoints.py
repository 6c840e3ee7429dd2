from concurrent.futures import ProcessPoolExecutor

import torch
from training import train

if __name__ == "__main__":
    model, _ = train()
    with ProcessPoolExecutor(1) as pool:
        print(pool.submit(torch.save, model.state_dict(), "model.pt").result())
    print(sorted(torch.load("model.pt")))
