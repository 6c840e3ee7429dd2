import lightning
import torch

trainer = lightning.Trainer(detect_anomaly=True, max_epochs=3)
trainer.fit(torch.nn.Linear(8, 1), torch.utils.data.DataLoader(torch.randn(10000, 8)))
