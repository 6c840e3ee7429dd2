import argparse
from multiprocessing import Pool

from datasets import load_dataset
from transformers import AutoTokenizer

parser = argparse.ArgumentParser()
parser.add_argument("--overwrite_cache", action="store_true")
parser.add_argument("--preprocessing_num_workers", type=int, default=None)
args = parser.parse_args()
tokenizer = AutoTokenizer.from_pretrained("gpt2")


def encode(rows):
    return tokenizer(rows["text"])


def rename(row):
    return {"labels": row["label"]}


raw = load_dataset("glue", "mrpc")
a = raw.map(encode, batched=True, load_from_cache_file=not args.overwrite_cache)
b = raw.map(encode, num_proc=8)
c = raw.map(rename)
d = raw["train"].select(range(100)).map(encode)
e = raw.map(encode, num_proc=args.preprocessing_num_workers, batched=True)
with Pool(4) as pool:  # 进程池
    f = pool.map(encode, ["a"])
