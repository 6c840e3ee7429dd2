from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("mistralai/Mistral-7B-v0.1")
configs = [
    LoraConfig(r=64, lora_alpha=16, target_modules=["q_proj", "o_proj", "gate_proj", "lm_head"]),
    LoraConfig(r=8, lora_alpha=8, target_modules="all-linear"),
    LoraConfig(r=8, lora_alpha=8, target_modules=r".*\.(q|v)_proj"),  # 正则表达式
    LoraConfig(r=1, lora_alpha=32, target_modules=["q_proj"]),
]
model = get_peft_model(model, configs[0])
