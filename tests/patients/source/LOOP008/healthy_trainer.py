"""The Trainer sets seed 42 by itself."""

from transformers import AutoModelForSequenceClassification, Trainer, TrainingArguments

model = AutoModelForSequenceClassification.from_pretrained("bert-base-uncased")
trainer = Trainer(model=model, args=TrainingArguments(output_dir="out"), train_dataset=[])
trainer.train()
