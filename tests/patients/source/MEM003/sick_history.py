"""损失和输出保存在列表里, 没有 detach."""
import torch


class Trainer:
    def __init__(self, model, loader):
        self.model, self.loader = model, loader
        self.criterion = torch.nn.CrossEntropyLoss()
        self.optimizer = torch.optim.Adam(model.parameters())
        self.history = {"loss": [], "outputs": {}}

    def fit(self, epochs):
        for epoch in range(epochs):
            for step, (x, y) in enumerate(self.loader):
                outputs = self.model(x)
                loss = self.criterion(outputs, y)
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                self.history["loss"].append(loss)  # 记录损失曲线


if __name__ == "__main__":
    data = torch.utils.data.TensorDataset(torch.randn(100, 8), torch.randint(0, 3, (100,)))
    Trainer(torch.nn.Linear(8, 3), torch.utils.data.DataLoader(data)).fit(3)
