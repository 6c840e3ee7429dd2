import torch


class Runner:
    def __init__(self, model, data):
        self.model, self.data = model, data
        self.optimizer = torch.optim.Adam(model.parameters())
        self.step = 0

    def save(self):
        state = {"weights": self.model.state_dict(), "step": self.step}
        torch.save(state, f"ckpt-{self.step}.pt")

    def train(self):
        for x, y in torch.utils.data.DataLoader(self.data, batch_size=16):
            self.optimizer.zero_grad()
            torch.nn.functional.mse_loss(self.model(x), y).backward()
            self.optimizer.step()
            self.step += 1
            if self.step % 20 == 0:
                self.save()


Runner(torch.nn.Linear(4, 1), []).train()
