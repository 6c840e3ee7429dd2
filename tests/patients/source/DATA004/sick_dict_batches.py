"""字典形式的批次，逐个张量复制到显卡。"""

import argparse

import torch
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM, AutoTokenizer, default_data_collator


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--model", default="gpt2")
    return parser.parse_args()


def train_one_epoch(model, loader, optimizer, device):
    model.train()
    for step, batch in enumerate(loader):
        batch = {k: v.to(device) for k, v in batch.items()}
        outputs = model(**batch)
        outputs.loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def main():
    args = parse()
    tokenizer = AutoTokenizer.from_pretrained(args.model)
    rows = [tokenizer("hello", return_tensors="np") for _ in range(64)]
    loader = DataLoader(rows, batch_size=8, num_workers=2, collate_fn=default_data_collator)
    model = AutoModelForCausalLM.from_pretrained(args.model).to(args.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    for epoch in range(3):
        train_one_epoch(model, loader, optimizer, args.device)


if __name__ == "__main__":
    main()
