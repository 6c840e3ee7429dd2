import torch
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

DS = {"zero_optimization": {"stage": 2}, "fp16": {"enabled": "auto"}, "bf16": {"enabled": "auto"}}

model = AutoModelForCausalLM.from_pretrained("gpt2", torch_dtype=torch.bfloat16)
args = TrainingArguments(output_dir="out", fp16=False, bf16=True, deepspeed=DS)
trainer = Trainer(model=model, args=args, train_dataset=[])
trainer.train()
