import torch
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained(
    "google/gemma-2-9b",
    torch_dtype=torch.bfloat16,
    attn_implementation="eager",
)
Trainer(model=model, args=TrainingArguments("out", bf16=True), train_dataset=None).train()
