import torch
from transformers import AutoModelForCausalLM

# 权重以 bf16 加载
model = AutoModelForCausalLM.from_pretrained("meta-llama/Llama-3.2-1B", torch_dtype=torch.bfloat16).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
loader = torch.utils.data.DataLoader(torch.load("tokens.pt"), batch_size=4)
for tokens in loader:
    loss = model(tokens.cuda(), labels=tokens.cuda()).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
