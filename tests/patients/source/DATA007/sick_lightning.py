import lightning as L
import torch
from torch.utils.data import DataLoader


class Data(L.LightningDataModule):
    def train_dataloader(self):
        return DataLoader(torch.randn(100, 8), shuffle=True, drop_last=True)

    def val_dataloader(self):
        return DataLoader(torch.randn(100, 8), batch_size=16, drop_last=True)


class Net(L.LightningModule):
    def training_step(self, batch, index):
        return batch.mean()


L.Trainer(max_epochs=3).fit(Net(), datamodule=Data())
