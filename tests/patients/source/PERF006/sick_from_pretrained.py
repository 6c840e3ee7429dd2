import torch
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained(
    "meta-llama/Llama-3.2-3B",
    torch_dtype=torch.bfloat16,
    attn_implementation="eager",
    # healthy_sdpa: attn_implementation="sdpa",
)
Trainer(model=model, args=TrainingArguments("out", bf16=True), train_dataset=None).train()
