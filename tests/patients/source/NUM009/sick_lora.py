from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = get_peft_model(AutoModelForCausalLM.from_pretrained("gpt2"), LoraConfig(r=8))
args = TrainingArguments("out", learning_rate=2e-6)
Trainer(model=model, args=args, train_dataset=[]).train()
