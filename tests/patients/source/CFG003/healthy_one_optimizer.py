import deepspeed
import torch

model = torch.nn.Linear(4, 4)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
engine, optimizer, _, _ = deepspeed.initialize(
    model=model,
    optimizer=optimizer,
    config={"train_micro_batch_size_per_gpu": 4, "zero_optimization": {"stage": 1}},
)
