import torch
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("facebook/opt-350m", torch_dtype=torch.float16)
args = TrainingArguments(output_dir="out", learning_rate=2e-5)
Trainer(model=model, args=args, train_dataset=[]).train()
