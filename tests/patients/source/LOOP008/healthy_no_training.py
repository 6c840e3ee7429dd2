import torch

model = torch.nn.Linear(8, 1)
with torch.no_grad():
    for x in torch.utils.data.DataLoader(torch.load("rows.pt")):
        print(model(x))
