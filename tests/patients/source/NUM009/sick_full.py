from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("gpt2")
args = TrainingArguments("out", learning_rate=1e-3)  # 全量微调
Trainer(model=model, args=args, train_dataset=[]).train()
