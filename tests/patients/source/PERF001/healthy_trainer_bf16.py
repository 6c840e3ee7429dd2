from transformers import AutoModelForSequenceClassification, Trainer, TrainingArguments

model = AutoModelForSequenceClassification.from_pretrained("bert-base-uncased")
Trainer(model=model, args=TrainingArguments("out", bf16=True), train_dataset=None).train()
