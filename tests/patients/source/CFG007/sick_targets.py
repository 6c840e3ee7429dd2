from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("gpt2-medium")
config = LoraConfig(r=8, lora_alpha=16, target_modules=["q_proj", "v_proj"])  # gpt2 没有这些层
model = get_peft_model(model, config)
