import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM


def train(loader):
    model = AutoModelForCausalLM.from_pretrained("facebook/opt-350m")
    model = get_peft_model(model, LoraConfig(r=8, lora_alpha=8))
    model.gradient_checkpointing_enable()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for batch in loader:
        optimizer.zero_grad()
        model(**batch).loss.backward()
        optimizer.step()
