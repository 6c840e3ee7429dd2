import sys

from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained(sys.argv[1])
model = get_peft_model(model, LoraConfig(r=8, lora_alpha=16, target_modules=["attention.wqkv", "query"]))
