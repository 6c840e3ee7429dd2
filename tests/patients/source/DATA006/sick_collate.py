import argparse

import torch
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM, AutoTokenizer


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--max_length", type=int, default=1024)
    args = parser.parse_args()
    tokenizer = AutoTokenizer.from_pretrained("gpt2")
    model = AutoModelForCausalLM.from_pretrained("gpt2").cuda()

    def collate_fn(texts):
        # 全部补到最大长度
        return tokenizer(
            texts, padding="max_length", truncation=True, max_length=args.max_length, return_tensors="pt"
        )

    loader = DataLoader(["a", "b"], batch_size=4, collate_fn=collate_fn)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    for epoch in range(2):
        for batch in loader:
            loss = model(**batch.to("cuda"), labels=batch["input_ids"].cuda()).loss
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()


main()
