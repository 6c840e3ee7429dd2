import datasets
from transformers import AutoTokenizer


def prepare(path):
    tokenizer = AutoTokenizer.from_pretrained("gpt2")
    raw = datasets.load_dataset(path, split="train")
    return raw.map(
        lambda rows: tokenizer(rows["text"]),
        batched=True,
        num_proc=8,
        load_from_cache_file=False,
    )
