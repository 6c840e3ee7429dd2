from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("gpt2")
model.config.use_cache = False
args = TrainingArguments("out", gradient_checkpointing=True)
trainer = Trainer(model=model, args=args, train_dataset=[])
trainer.train()
model.config.use_cache = True  # 训练之后再打开，用于推理
model.save_pretrained("out")
