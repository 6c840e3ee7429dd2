import torch
from sklearn.metrics import accuracy_score, f1_score
from torch.utils.data import DataLoader

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = torch.nn.Linear(16, 4).to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
train_loader = DataLoader(torch.utils.data.TensorDataset(torch.randn(100, 16), torch.zeros(100)), batch_size=8)
for epoch in range(10):
    for x, y in train_loader:
        x, y = x.to(device), y.to(device).long()
        logits = model(x)
        loss = torch.nn.functional.cross_entropy(logits, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        preds = logits.argmax(dim=-1)
        # 每一步都计算指标
        acc = accuracy_score(y.cpu().numpy(), preds.cpu().numpy())
        f1 = f1_score(y.cpu().numpy(), preds.cpu().numpy(), average="macro")
