import torch
from sklearn.metrics import f1_score

model = torch.nn.Linear(16, 4)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
features, labels = torch.randn(1000, 16), torch.zeros(1000).long()
for epoch in range(200):
    logits = model(features)
    loss = torch.nn.functional.cross_entropy(logits, labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(epoch, f1_score(labels, logits.argmax(-1), average="macro"))
