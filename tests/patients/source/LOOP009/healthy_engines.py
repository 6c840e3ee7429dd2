"""The Trainer saves every 500 steps by itself."""

from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("gpt2")
args = TrainingArguments(output_dir="out", max_steps=50_000)
trainer = Trainer(model=model, args=args, train_dataset=[])
trainer.train()
