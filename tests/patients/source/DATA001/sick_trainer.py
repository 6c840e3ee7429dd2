"""The Trainer's loader has no workers by default, and the data set tokenises each item when it is asked."""

from datasets import load_dataset
from torch.utils.data import Dataset
from transformers import AutoModelForSequenceClassification, AutoTokenizer, Trainer, TrainingArguments

tokenizer = AutoTokenizer.from_pretrained("bert-base-uncased")


class Reviews(Dataset):
    def __init__(self):
        self.rows = load_dataset("imdb", split="train")

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, n):
        return tokenizer(self.rows[n]["text"], truncation=True, padding="max_length", max_length=512)


dataset = Reviews()
model = AutoModelForSequenceClassification.from_pretrained("bert-base-uncased")
arguments = TrainingArguments(output_dir="out", per_device_train_batch_size=16, num_train_epochs=1,
                              logging_steps=50, remove_unused_columns=False)
trainer = Trainer(model=model, args=arguments, train_dataset=dataset)
trainer.train()
