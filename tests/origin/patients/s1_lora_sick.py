"""性能指南 (S1)：LoRA 与 4 位量化。"""

import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, BitsAndBytesConfig, Trainer, TrainingArguments

quantization = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_compute_dtype=torch.float32)  # <- CFG008
model = AutoModelForCausalLM.from_pretrained("meta-llama/Llama-3.1-8B", quantization_config=quantization)
# 目标层的名字来自 GPT-2，Llama 里没有
model = get_peft_model(model, LoraConfig(r=16, lora_alpha=32, target_modules=["c_attn"]))  # <- CFG007
arguments = TrainingArguments(
    output_dir="out",
    bf16=True,
    evaluation_strategy="steps",  # <- CFG009  旧名字
    eval_steps=500,
    gradient_checkpointing=True,
)
Trainer(model=model, args=arguments).train()
