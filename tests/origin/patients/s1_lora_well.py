"""性能指南 (S1)：同一脚本，已修复。"""

import torch
from peft import LoraConfig, get_peft_model, prepare_model_for_kbit_training
from transformers import AutoModelForCausalLM, BitsAndBytesConfig, Trainer, TrainingArguments

quantization = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_compute_dtype=torch.bfloat16)
model = AutoModelForCausalLM.from_pretrained("meta-llama/Llama-3.1-8B", quantization_config=quantization)
model = prepare_model_for_kbit_training(model)
model = get_peft_model(model, LoraConfig(r=16, lora_alpha=32, target_modules=["q_proj", "v_proj"]))
arguments = TrainingArguments(
    output_dir="out",
    bf16=True,
    eval_strategy="steps",
    eval_steps=500,
    gradient_checkpointing=True,
)
Trainer(model=model, args=arguments).train()
