"""微调脚本: 日志频率来自命令行默认值."""
import argparse

from transformers import Seq2SeqTrainer, Seq2SeqTrainingArguments

parser = argparse.ArgumentParser()
parser.add_argument("--logging_steps", type=int, default=1)  # 日志间隔
parser.add_argument("--save_steps", type=int, default=20)
args = parser.parse_args()
training_args = Seq2SeqTrainingArguments(
    output_dir="out", logging_steps=args.logging_steps, save_steps=args.save_steps, max_steps=20000
)
Seq2SeqTrainer(model=None, args=training_args).train()
