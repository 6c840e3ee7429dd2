from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

args = TrainingArguments(
    output_dir="out",
    max_steps=50_000,
    save_strategy="no",
    per_device_train_batch_size=4,
)
model = AutoModelForCausalLM.from_pretrained("gpt2")
trainer = Trainer(model=model, args=args, train_dataset=[])
trainer.train()
