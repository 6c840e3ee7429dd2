import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, BitsAndBytesConfig, Trainer, TrainingArguments


def main():
    config = BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_compute_dtype=torch.float32,
    )
    model = AutoModelForCausalLM.from_pretrained("gpt2", quantization_config=config)
    model = get_peft_model(model, LoraConfig(r=8))
    Trainer(model=model, args=TrainingArguments("out"), train_dataset=[]).train()
