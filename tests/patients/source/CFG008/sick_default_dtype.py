from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, BitsAndBytesConfig, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("gpt2", quantization_config=BitsAndBytesConfig(load_in_4bit=True))
model = get_peft_model(model, LoraConfig(r=8))
Trainer(model=model, args=TrainingArguments("out"), train_dataset=[]).train()
