import lightning as L

trainer = L.Trainer(max_epochs=10, val_check_interval=0.25, log_every_n_steps=50)
smoke = L.Trainer(fast_dev_run=True, log_every_n_steps=1)
trainer.fit(None)
