import torch
from peft import LoraConfig, get_peft_model, prepare_model_for_kbit_training
from transformers import AutoModelForCausalLM, BitsAndBytesConfig, Trainer, TrainingArguments

config = BitsAndBytesConfig(load_in_4bit=True, load_in_8bit=False, bnb_4bit_compute_dtype=torch.bfloat16)
model = AutoModelForCausalLM.from_pretrained("gpt2", quantization_config=config)
model = get_peft_model(prepare_model_for_kbit_training(model), LoraConfig(r=8))
Trainer(model=model, args=TrainingArguments("out", bf16=True), train_dataset=[]).train()
