import torch
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("gpt2", load_in_8bit=True, device_map="auto")
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
for batch in DataLoader([]):
    optimizer.zero_grad()
    model(**batch).loss.backward()
    optimizer.step()
