from datasets import load_dataset
from transformers import AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("gpt2")


def encode(rows):
    return tokenizer(rows["text"])


# 大数据集，没有 num_proc
corpus = load_dataset("Skylion007/openwebtext", split="train")
corpus = corpus.map(encode, batched=True, remove_columns=["text"])
