import torch
from transformers import AutoModelForCausalLM, BitsAndBytesConfig

# 只做推理
model = AutoModelForCausalLM.from_pretrained("gpt2", quantization_config=BitsAndBytesConfig(load_in_4bit=True))
with torch.no_grad():
    model.generate(torch.zeros(1, 4, dtype=torch.long))
