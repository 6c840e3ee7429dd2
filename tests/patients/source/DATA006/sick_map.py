from datasets import load_dataset
from transformers import AutoModelForSequenceClassification, AutoTokenizer, Trainer, TrainingArguments

tokenizer = AutoTokenizer.from_pretrained("bert-base-cased")
model = AutoModelForSequenceClassification.from_pretrained("bert-base-cased", num_labels=5)


def tokenize_function(examples):
    return tokenizer(examples["text"], padding="max_length", truncation=True)


dataset = load_dataset("yelp_review_full").map(tokenize_function, batched=True)
trainer = Trainer(
    model=model,
    args=TrainingArguments("out", num_train_epochs=3),
    train_dataset=dataset["train"],
    processing_class=tokenizer,
)
trainer.train()
