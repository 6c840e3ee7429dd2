import lightning as L
import torch
import torch.nn.functional as F
import torchvision


class Classifier(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.backbone = torchvision.models.convnext_base(num_classes=100)

    def training_step(self, batch, batch_idx):
        x, y = batch
        return F.cross_entropy(self.backbone(x), y)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


def main():
    trainer = L.Trainer(max_epochs=10, accelerator="gpu", devices=1, precision="32-true")
    trainer.fit(Classifier(), torch.utils.data.DataLoader(torch.load("data.pt"), batch_size=64))


main()
