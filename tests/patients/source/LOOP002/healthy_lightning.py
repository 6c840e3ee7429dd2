"""Lightning switches by itself."""

import lightning as L
import torch


class Model(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 1))

    def training_step(self, batch, batch_idx):
        return self.net(batch).mean()

    def validation_step(self, batch, batch_idx):
        for part in batch.split(2):
            self.log("val", self.net(part).mean())

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters())


if __name__ == "__main__":
    loader = torch.utils.data.DataLoader(torch.randn(64, 8), batch_size=8)
    L.Trainer(max_epochs=1).fit(Model(), loader, loader)
