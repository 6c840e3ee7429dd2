"""A Lightning module whose training loader decodes images without workers."""

import cv2
import lightning as L
import torch
from torch.utils.data import DataLoader, Dataset


class Frames(Dataset):
    def __init__(self, paths):
        self.paths = paths

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        frame = cv2.imread(self.paths[index])
        frame = cv2.resize(frame, (224, 224))
        return torch.from_numpy(frame).permute(2, 0, 1).float() / 255, index % 5


class Data(L.LightningDataModule):
    def train_dataloader(self):
        return DataLoader(Frames([f"frame{i}.png" for i in range(1000)]), batch_size=32, shuffle=True)


class Model(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.LazyLinear(5))

    def training_step(self, batch, batch_idx):
        x, y = batch
        return torch.nn.functional.cross_entropy(self.net(x), y)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


if __name__ == "__main__":
    L.Trainer(max_epochs=3, accelerator="gpu", devices=1).fit(Model(), datamodule=Data())
