import lightning as L
import torch


class Net(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 1)

    def training_step(self, batch, batch_idx):
        x, y = batch
        return torch.nn.functional.mse_loss(self.layer(x), y)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters())


loader = torch.utils.data.DataLoader(
    torch.utils.data.TensorDataset(torch.randn(1000, 8), torch.randn(1000, 1)), num_workers=4
)
trainer = L.Trainer(max_epochs=10, profiler="pytorch")
trainer.fit(Net(), loader)
