from concurrent.futures import ThreadPoolExecutor

import torch
from training import train

model, optimizer = train()
with ThreadPoolExecutor(2) as pool:
    jobs = [
        pool.submit(torch.save, part.state_dict(), f"{at}.pt") for at, part in enumerate((model, optimizer))
    ]
    print([job.result() for job in jobs])
