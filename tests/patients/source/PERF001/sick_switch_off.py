import argparse

import torch
import timm
from torch.cuda.amp import GradScaler, autocast

parser = argparse.ArgumentParser()
parser.add_argument("--amp", action="store_true", help="mixed precision")
args = parser.parse_args()

model = timm.create_model("vit_base_patch16_224", pretrained=True).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
scaler = GradScaler(enabled=args.amp)
loader = torch.utils.data.DataLoader(torch.load("images.pt"), batch_size=64)
for images, labels in loader:
    with autocast(enabled=args.amp):
        loss = torch.nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
