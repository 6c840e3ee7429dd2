"""Full-batch training of a graph network: one step is one epoch."""
import torch

features, labels = torch.load("graph.pt")
model = torch.nn.Linear(1433, 7)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for epoch in range(200):
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(features), labels)
    loss.backward()
    optimizer.step()
    print(f"Epoch {epoch:03d} loss {loss.item():.4f}")
