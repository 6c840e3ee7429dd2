import torch
import yaml

settings = yaml.safe_load(open("sick_text.yaml"))
torch.optim.AdamW([], lr=settings["optimizer"]["lr"])
