from peft import LoraConfig

config = LoraConfig(r=8, lora_alpha=512, target_modules="all-linear")
