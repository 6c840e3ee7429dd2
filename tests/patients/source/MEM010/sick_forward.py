import torch
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("gpt2").cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
loader = torch.utils.data.DataLoader([])
for ids in loader:
    out = model(ids, labels=ids, use_cache=True)
    out.loss.backward()
    optimizer.step()
    optimizer.zero_grad()
