from datasets import load_dataset
from transformers import AutoModelForSequenceClassification, AutoTokenizer, Trainer, TrainingArguments

tokenizer = AutoTokenizer.from_pretrained("bert-base-uncased")
model = AutoModelForSequenceClassification.from_pretrained("bert-base-uncased", num_labels=2)


def encode(rows):
    # 固定长度
    return tokenizer(rows["text"], truncation=True, padding="max_length", max_length=256)


data = load_dataset("imdb").map(encode, batched=True)
args = TrainingArguments(output_dir="out", bf16=True, per_device_train_batch_size=32)
Trainer(model=model, args=args, train_dataset=data["train"]).train()
