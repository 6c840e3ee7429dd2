from transformers import Trainer, TrainingArguments
from trl import SFTConfig

demo = SFTConfig(output_dir="out", max_steps=20, logging_steps=1, save_steps=10)
accumulated = TrainingArguments("out", logging_steps=5, gradient_accumulation_steps=16, save_steps=500)
shares = TrainingArguments("out", logging_steps=0.05, eval_strategy="steps", eval_steps=0.1, save_steps=0.2)
Trainer(model=None, args=shares).train()
