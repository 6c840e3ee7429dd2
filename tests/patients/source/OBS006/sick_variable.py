import os

from transformers import Trainer, TrainingArguments

os.environ["WANDB_WATCH"] = "all"  # 监控所有参数
trainer = Trainer(model=None, args=TrainingArguments("out"), train_dataset=None)
trainer.train()
