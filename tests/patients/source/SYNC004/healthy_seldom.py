import torch
from sklearn.metrics import f1_score, roc_auc_score

model = torch.nn.Linear(16, 4).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
train_loader = torch.utils.data.DataLoader(torch.randn(100, 16), batch_size=8)
val_loader = torch.utils.data.DataLoader(torch.randn(100, 16), batch_size=8)
for epoch in range(10):
    for step, (x, y) in enumerate(train_loader):
        x, y = x.cuda(), y.cuda()
        logits = model(x)
        losses = {"ce": torch.nn.functional.cross_entropy(logits, y), "l2": logits.pow(2).mean()}
        optimizer.zero_grad()
        sum(losses.values()).backward()
        optimizer.step()
        if step % 50 == 0:  # 每 50 步
            print(f1_score(y.cpu(), logits.argmax(-1).cpu(), average="macro"))
            for name, value in losses.items():
                print(name, value.item())
    model.eval()
    with torch.no_grad():
        for x, y in val_loader:
            logits = model(x.cuda())
            for i in range(len(y)):
                print(logits[i].argmax().item())
            f1_score(y, logits.argmax(-1).cpu(), average="macro")
    model.train()
    print(roc_auc_score([0, 1], [0.1, 0.9]))
