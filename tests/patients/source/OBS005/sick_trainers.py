import torch
from transformers import Trainer, TrainingArguments

args = TrainingArguments(output_dir="out", debug="underflow_overflow", num_train_epochs=3)
trainer = Trainer(model=torch.nn.Linear(8, 1), args=args, train_dataset=torch.randn(100, 8))
trainer.train()
