import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from transformers import BertModel

dist.init_process_group("nccl")
model = DistributedDataParallel(BertModel.from_pretrained("bert-base-uncased").cuda(), find_unused_parameters=True)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
for batch in torch.utils.data.DataLoader(torch.load("data.pt"), batch_size=64):
    loss = model(batch.cuda()).last_hidden_state.mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
