from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("gpt2")
args = TrainingArguments(output_dir="out", num_train_epochs=1, fp16=True, bf16=True)  # 两个都开了
trainer = Trainer(model=model, args=args, train_dataset=[])
trainer.train()
