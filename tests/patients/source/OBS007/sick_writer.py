import torch
from torch.utils.tensorboard import SummaryWriter


class Trainer:
    def __init__(self, model):
        self.model = model
        self.writer = SummaryWriter("runs")
        self.optimizer = torch.optim.Adam(model.parameters())

    def log(self, loss, step):
        self.writer.add_scalar("loss", loss, step)
        self.writer.flush()

    def train(self, loader):
        for step, x in enumerate(loader):
            self.optimizer.zero_grad()
            loss = self.model(x).mean()
            loss.backward()
            self.optimizer.step()
            self.log(loss.detach(), step)
            print(step, loss.item(), flush=True)


Trainer(torch.nn.Linear(8, 1)).train(torch.utils.data.DataLoader(torch.randn(1000, 8)))
