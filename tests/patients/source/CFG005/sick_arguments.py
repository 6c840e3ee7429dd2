from peft import LoraConfig
from transformers import TrainingArguments

args = TrainingArguments(output_dir="out", per_device_train_batchsize=4)  # 少了一个下划线
lora = LoraConfig(r=8, target_module=["q_proj"])
