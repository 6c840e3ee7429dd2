import torch
from transformers import AutoModelForCausalLM, BitsAndBytesConfig, Trainer, TrainingArguments

bnb = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_compute_dtype=torch.bfloat16)
model = AutoModelForCausalLM.from_pretrained("gpt2", quantization_config=bnb)
Trainer(model=model, args=TrainingArguments("out", bf16=True), train_dataset=[]).train()  # 全量微调
