from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("gpt2", use_cache=True)
args = TrainingArguments("out", gradient_checkpointing=False)
Trainer(model=model, args=args, train_dataset=[]).train()
