from transformers import Trainer, TrainingArguments

args = TrainingArguments("out", max_steps=200, logging_steps=500, eval_strategy="steps", eval_steps=1000)
Trainer(model=None, args=args).train()
