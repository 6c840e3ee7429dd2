from datasets import load_dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, Trainer, TrainingArguments

tokenizer = AutoTokenizer.from_pretrained("gpt2")


def tokenize(row):
    return tokenizer(row["text"], truncation=True, max_length=1024)


dataset = load_dataset("json", data_files="train.jsonl")["train"]
dataset = dataset.map(tokenize)  # 单进程逐条
model = AutoModelForCausalLM.from_pretrained("gpt2")
Trainer(model=model, args=TrainingArguments("out"), train_dataset=dataset).train()
