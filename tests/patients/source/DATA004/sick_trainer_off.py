"""The Trainer pins by default; here it is told not to."""

from datasets import load_dataset
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("gpt2")
args = TrainingArguments(output_dir="out", dataloader_num_workers=4, dataloader_pin_memory=False, logging_steps=100)
Trainer(model=model, args=args, train_dataset=load_dataset("x", split="train")).train()
