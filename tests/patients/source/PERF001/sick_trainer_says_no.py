from datasets import load_dataset
from transformers import AutoModelForSequenceClassification, AutoTokenizer, Trainer, TrainingArguments

tokenizer = AutoTokenizer.from_pretrained("bert-base-uncased")
model = AutoModelForSequenceClassification.from_pretrained("bert-base-uncased", num_labels=2)
data = load_dataset("imdb").map(lambda x: tokenizer(x["text"], truncation=True), batched=True)
args = TrainingArguments(
    output_dir="out",
    per_device_train_batch_size=16,
    num_train_epochs=3,
    fp16=False,  # 未启用混合精度
)
trainer = Trainer(model=model, args=args, train_dataset=data["train"], tokenizer=tokenizer)
trainer.train()
