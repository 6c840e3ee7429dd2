import lightning as L
import numpy as np
import torch


class Model(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Linear(8, 1)

    def training_step(self, batch, batch_idx):
        return self.net(batch + np.random.rand()).mean()

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters())


if __name__ == "__main__":
    L.Trainer(max_epochs=1).fit(Model(), torch.utils.data.DataLoader(torch.load("rows.pt"), batch_size=8))
