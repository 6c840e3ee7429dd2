from datasets import load_dataset
from transformers import (
    AutoModelForSequenceClassification, AutoTokenizer, DataCollatorWithPadding, Trainer, TrainingArguments,
)

tokenizer = AutoTokenizer.from_pretrained("bert-base-uncased")
model = AutoModelForSequenceClassification.from_pretrained("bert-base-uncased")
data = load_dataset("imdb").map(lambda rows: tokenizer(rows["text"], truncation=True), batched=True)
collator = DataCollatorWithPadding(tokenizer, pad_to_multiple_of=8)  # 动态填充
args = TrainingArguments("out", fp16=True)
Trainer(model=model, args=args, train_dataset=data["train"], data_collator=collator).train()
