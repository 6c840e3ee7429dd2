from transformers import Trainer, TrainingArguments

args = TrainingArguments(
    output_dir="out",
    logging_steps=50,
    eval_strategy="epoch",
    eval_steps=5,
    save_strategy="no",
    save_steps=5,
    gradient_accumulation_steps=8,
)
Trainer(model=None, args=args).train()
