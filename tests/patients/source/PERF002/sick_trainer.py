from transformers import AutoModelForSequenceClassification, Trainer, TrainingArguments

model = AutoModelForSequenceClassification.from_pretrained("roberta-large")
args = TrainingArguments("out", per_device_train_batch_size=16, tf32=False)
Trainer(model=model, args=args, train_dataset=None).train()
