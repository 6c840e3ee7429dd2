import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("gpt2")
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-4)
model = get_peft_model(model, LoraConfig(r=8))
for batch in torch.utils.data.DataLoader([{"input_ids": torch.zeros(8, dtype=torch.long)}] * 8):
    loss = model(**batch, labels=batch["input_ids"]).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
