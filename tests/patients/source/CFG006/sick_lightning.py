from lightning.pytorch import Trainer
from lightning.pytorch.callbacks import ModelCheckpoint

saves = ModelCheckpoint(dirpath="ckpt", every_n_train_steps=5)
trainer = Trainer(max_epochs=10, log_every_n_steps=1, val_check_interval=10, callbacks=[saves])
trainer.fit(None)
