"""Tokenised once with map before the training: the loader only stacks."""

from datasets import load_dataset
from transformers import AutoModelForSequenceClassification, AutoTokenizer, Trainer, TrainingArguments

tokenizer = AutoTokenizer.from_pretrained("bert-base-uncased")


def encode(batch):
    return tokenizer(batch["text"], truncation=True, padding="max_length")


dataset = load_dataset("imdb", split="train").map(encode, batched=True, num_proc=8)
model = AutoModelForSequenceClassification.from_pretrained("bert-base-uncased")
trainer = Trainer(model=model, args=TrainingArguments(output_dir="out", logging_steps=100), train_dataset=dataset)
trainer.train()
