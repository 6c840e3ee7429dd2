from datasets import load_dataset
from transformers import AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("gpt2")


def encode(row):
    return tokenizer(row["text"])


# 流式读取
stream = load_dataset("allenai/c4", "en", split="train", streaming=True).map(encode)
