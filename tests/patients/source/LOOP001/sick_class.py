import torch
from accelerate import Accelerator


class Trainer:
    def __init__(self, model, loader):
        self.accelerator = Accelerator()
        self.optimizer = torch.optim.AdamW(model.parameters())
        self.model, self.optimizer, self.loader = self.accelerator.prepare(model, self.optimizer, loader)

    def training_step(self, batch):
        loss = self.model(batch).mean()
        self.accelerator.backward(loss)
        self.optimizer.step()
        return loss.detach()

    def fit(self):
        for epoch in range(3):
            for batch in self.loader:
                self.training_step(batch)


Trainer(torch.nn.Linear(8, 1), torch.utils.data.DataLoader(torch.randn(100, 8))).fit()
