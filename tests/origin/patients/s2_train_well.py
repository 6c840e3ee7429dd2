"""优化总结 (S2)：同一脚本，已修复。"""

import argparse
import os

import torch
from torch.utils.data import DataLoader, Dataset
from transformers import AutoModelForCausalLM


class Tokens(Dataset):
    def __init__(self, rows):
        self.rows = rows

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return torch.tensor(self.rows[index])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--num_workers", type=int, default=4)
    parser.add_argument("--deepspeed")
    args = parser.parse_args()
    model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-7B", attn_implementation="sdpa").cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    loader = DataLoader(
        Tokens([[1, 2]]), batch_size=1, num_workers=args.num_workers, pin_memory=True, persistent_workers=True
    )
    start = 0
    if os.path.exists("last.pt"):  # 从断点继续
        state = torch.load("last.pt")
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        start = state["epoch"] + 1
    for epoch in range(start, 100):
        for ids in loader:
            ids = ids.cuda(non_blocking=True)
            loss = model(input_ids=ids, labels=ids).loss
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        torch.save(
            {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}, "last.pt"
        )


main()
