import torch


class Trainer:
    def __init__(self, model, train_dataloader, val_dataloader):
        self.model = model
        self.train_dataloader = train_dataloader
        self.val_dataloader = val_dataloader
        self.optimizer = torch.optim.AdamW(model.parameters())

    def fit(self):
        for step, batch in enumerate(self.train_dataloader):
            loss = self.model(batch).mean()
            loss.backward()
            self.optimizer.step()
            self.optimizer.zero_grad()
            if step % 20 == 0:
                self.model.eval()
                total = 0.0
                with torch.no_grad():
                    for held_out in self.val_dataloader:
                        total += self.model(held_out).mean()
                self.model.train()
                print(step, total)


train = torch.utils.data.DataLoader(torch.randn(1000, 8))
val = torch.utils.data.DataLoader(torch.randn(1000, 8))
Trainer(torch.nn.Linear(8, 1), train, val).fit()
