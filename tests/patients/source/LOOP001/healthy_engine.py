import deepspeed
import torch

model = torch.nn.Linear(8, 1)
model_engine, optimizer, loader, _ = deepspeed.initialize(
    model=model, model_parameters=model.parameters(), training_data=torch.randn(100, 8), config="ds.json"
)
for batch in loader:
    loss = model_engine(batch).mean()
    model_engine.backward(loss)
    model_engine.step()
