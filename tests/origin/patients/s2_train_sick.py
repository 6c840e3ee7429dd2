"""优化总结 (S2)：每一步清缓存，急切注意力，没有断点。"""

import argparse

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
    parser.add_argument("--num_workers", type=int, default=64)  # 工作进程越多越好？
    parser.add_argument("--deepspeed")
    args = parser.parse_args()
    # 急切注意力
    model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-7B", attn_implementation="eager")  # <- PERF006
    model = model.cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    loader = DataLoader(Tokens([[1, 2]]), batch_size=1, num_workers=args.num_workers)  # <- DATA003 DATA004
    for epoch in range(100):
        for ids in loader:
            ids = ids.cuda()
            loss = model(input_ids=ids, labels=ids).loss
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            torch.cuda.empty_cache()  # <- SYNC002  每一步清空显存缓存
    torch.save(model.state_dict(), "final.pt")  # 只在最后保存 <- LOOP009


main()
