import deepspeed
import torch

config = {"train_batch_size": 20, "train_micro_batch_size_per_gpu": 8, "optimizer": {"type": "Adam"}}
# healthy_initialize + config["train_batch_size"] = 16
model = torch.nn.Linear(4, 4)
engine, _, loader, _ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=config)
for batch in loader:
    engine.backward(engine(batch).sum())
    engine.step()
