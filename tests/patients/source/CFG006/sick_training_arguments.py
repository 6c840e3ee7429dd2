from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("gpt2")
args = TrainingArguments(
    output_dir="out",
    num_train_epochs=3,
    per_device_train_batch_size=8,
    logging_steps=1,
    eval_strategy="steps",
    eval_steps=5,
    save_strategy="steps",
    save_steps=5,
)
trainer = Trainer(model=model, args=args, train_dataset=None, eval_dataset=None)
trainer.train()
