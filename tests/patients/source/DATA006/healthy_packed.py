from transformers import AutoTokenizer
from trl import SFTConfig, SFTTrainer

tokenizer = AutoTokenizer.from_pretrained("gpt2")


def encode(rows):
    return tokenizer(rows["text"], padding="max_length", max_length=2048)


# 打包训练
args = SFTConfig("out", packing=True)
trainer = SFTTrainer(model="gpt2", args=args, train_dataset=None)
trainer.train()
