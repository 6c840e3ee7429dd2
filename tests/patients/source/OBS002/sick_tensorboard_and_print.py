"""Trainer class with TensorBoard scalars and a printed line for each batch."""
import torch
from torch.utils.tensorboard import SummaryWriter


class Trainer:
    def __init__(self, model, loader):
        self.model = model
        self.loader = loader
        self.optimizer = torch.optim.Adam(model.parameters())
        self.writer = SummaryWriter("runs/first")
        self.global_step = 0

    def log(self, loss):
        self.writer.add_scalar("train/loss", loss.item(), self.global_step)
        print(f"step {self.global_step}: {loss.item():.4f}")

    def train_epoch(self):
        for x, y in self.loader:
            loss = torch.nn.functional.mse_loss(self.model(x), y)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            self.log(loss)
            self.global_step += 1


if __name__ == "__main__":
    data = torch.utils.data.TensorDataset(torch.randn(512, 8), torch.randn(512, 1))
    trainer = Trainer(torch.nn.Linear(8, 1), torch.utils.data.DataLoader(data, batch_size=8))
    for epoch in range(10):
        trainer.train_epoch()
