from peft import LoraConfig
from transformers import AutoModelForCausalLM, TrainingArguments
from trl import DPOTrainer

model = AutoModelForCausalLM.from_pretrained("gpt2")
args = TrainingArguments("out", learning_rate=5e-6)
DPOTrainer(model=model, args=args, peft_config=LoraConfig(r=8), train_dataset=[]).train()
