import torch
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("gpt2").cuda()
model.gradient_checkpointing_enable()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
loader = torch.utils.data.DataLoader([])
for step, ids in enumerate(loader):
    model(ids, labels=ids, use_cache=False).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
with torch.no_grad():
    for ids in loader:
        model(ids, use_cache=True)
        model.generate(ids, use_cache=True)
