"""Probabilities for the metric go into the loss as well (Lightning)."""

import lightning as L
import torch
import torch.nn.functional as F


class Classifier(L.LightningModule):
    def __init__(self, width: int = 64, classes: int = 10):
        super().__init__()
        self.body = torch.nn.Linear(width, classes)

    def training_step(self, batch, batch_idx):
        x, y = batch
        logits = self.body(x)
        probs = torch.softmax(logits, dim=-1)
        loss = F.cross_entropy(probs, y)
        self.log("acc", (probs.argmax(-1) == y).float().mean())
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


if __name__ == "__main__":
    data = torch.utils.data.TensorDataset(torch.randn(64, 64), torch.randint(0, 10, (64,)))
    L.Trainer(max_epochs=3).fit(Classifier(), torch.utils.data.DataLoader(data, batch_size=8))
